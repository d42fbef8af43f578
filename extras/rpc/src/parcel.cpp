// SPDX-License-Identifier: Apache-2.0
#include "strata/rpc/parcel.hpp"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "channels/torch_streams.hpp"
#include "core.hpp"
#include "strata/util/error.hpp"

namespace strata::rpc {
namespace {

Device place_of(const at::Tensor& tensor) {
  return {.kind = tensor.is_cuda() ? Device::Kind::cuda : Device::Kind::cpu,
          .index = tensor.is_cuda() ? static_cast<int>(tensor.get_device()) : 0};
}

std::string subject(const Destination& destination, int argument) {
  if (destination.is_answer) return fmt::format("the result of {}", destination.function);
  if (destination.as_one) return fmt::format("an argument of {}", destination.function);
  return fmt::format("argument {} of {}", argument, destination.function);
}

/// The error for an unmapped device.
InputError no_place(const Core& core, const Destination& destination, int argument, int device) {
  const std::string& self = core.agent(core.rank()).name;
  const std::string& peer = core.agent(destination.rank).name;
  const std::string& caller = destination.is_answer ? peer : self;
  const std::string& callee = destination.is_answer ? self : peer;
  const std::string message = fmt::format(
      "{} -> {}: {} lies on cuda:{},\n  which {}'s device map for {} does not have (it has {}).", self, peer,
      subject(destination, argument), device, caller, callee, core.map_for(destination).text());
  const std::string pair = destination.is_answer ? fmt::format("cuda:N -> cuda:{}", device)
                                                 : fmt::format("cuda:{} -> cuda:N", device);
  return InputError(message, fmt::format("Map {} with set_device_map(\"{}\", ...) on {}, or {} a CPU tensor.",
                                         pair, callee, caller, destination.is_answer ? "return" : "pass"));
}

/// The values in host memory that may be read until they were sent.
at::Tensor on_host(const at::Tensor& tensor, bool copies) {
  const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg();
  if (plain.is_cuda()) {
    at::Tensor host = at::empty_like(plain, plain.options().device(at::kCPU).pinned_memory(true),
                                     at::MemoryFormat::Contiguous);
    host.copy_(plain);  // waits for the current stream only
    return host;
  }
  const at::Tensor dense = plain.contiguous();
  const bool is_own =
      dense.unsafeGetTensorImpl() != plain.unsafeGetTensorImpl() && !dense.is_alias_of(tensor);
  return copies && !is_own ? dense.clone() : dense;
}

/// The dense values of a tensor, on its GPU.
at::Tensor dense_of(const at::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().contiguous();
}

/// Returns dense values on a GPU, or a copy where the tensor may be overwritten before they were sent.
at::Tensor kept_until_sent(const at::Tensor& dense, const at::Tensor& tensor, Packing::Unchanged unchanged,
                           const Destination& destination) {
  const bool may_change =
      unchanged == Packing::Unchanged::until_packed && (destination.copies || destination.is_answer);
  return may_change && dense.is_alias_of(tensor) ? dense.clone() : dense;
}

/// An event after which a tensor on a GPU is there.
std::shared_ptr<const cuda::Event> made_on_current_stream(const at::Tensor& values) {
  const Device device = place_of(values);
  auto made = std::make_shared<cuda::Event>(device);
  made->record(current_stream(device));
  return made;
}

at::Tensor copied_to(const Room& room, const at::Tensor& tensor) {
  at::Tensor values = at::from_blob(room.data(), tensor.sizes(), at::TensorOptions(tensor.scalar_type()));
  values.copy_(tensor.detach());
  return values;
}

/// A tensor with the leaf's values; its gradient goes to the leaf.
at::Tensor following(const at::Tensor& leaf) {
  const auto identity = std::make_shared<torch::autograd::Identity>();
  identity->add_next_edge(torch::autograd::impl::gradient_edge(leaf));
  at::Tensor values = leaf.variable_data();
  torch::autograd::set_history(values, identity);
  return values;
}

}  // namespace

std::int32_t Packing::add(const at::Tensor& tensor, Unchanged unchanged) {
  if (!tensor.defined()) return -1;
  if (const auto known = known_.find(tensor.unsafeGetTensorImpl()); known != known_.end())
    return known->second.place;
  TensorPiece piece{
      .values = tensor, .destination = place_of(tensor), .requires_grad = tensor.requires_grad()};
  if (destination_.rank != core_.rank()) {
    if (tensor.layout() != at::kStrided || tensor.is_quantized() || !(tensor.is_cpu() || tensor.is_cuda())) {
      throw InputError(
          fmt::format("{} is a tensor that cannot travel: only dense ones on CPUs and CUDA devices can",
                      subject(destination_, argument_)));
    }
    if (tensor.is_cuda()) {
      const std::optional<int> place = core_.placed(destination_, piece.destination.index);
      if (!place) throw no_place(core_, destination_, argument_, piece.destination.index);
      piece.destination.index = *place;
    }
    if (!send_on_gpu(tensor, unchanged, piece) && !send_by_network(tensor, unchanged, piece)) {
      piece.room = core_.channels().room(destination_.rank, tensor.nbytes());
      piece.values = piece.room ? copied_to(*piece.room, tensor) : on_host(tensor, destination_.copies);
    }
    if (piece.requires_grad && current_context(core_)) piece.source = tensor;
  } else if (tensor.is_cuda()) {
    piece.wait = wait_for(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(tensor.device()));
  }
  const auto place = static_cast<std::int32_t>(parcel_.tensors.size());
  parcel_.tensors.push_back(std::move(piece));
  known_.emplace(tensor.unsafeGetTensorImpl(), Known{tensor, place});
  return place;
}

/// Sends a tensor to the receiver's GPU within a machine. Returns whether there is such a way.
bool Packing::send_on_gpu(const at::Tensor& tensor, Unchanged unchanged, TensorPiece& piece) {
  if (!tensor.is_cuda() || tensor.nbytes() == 0) return false;
  piece.gpu_route = core_.channels().gpu_route(
      destination_.rank, {.mine = static_cast<int>(tensor.get_device()), .its = piece.destination.index},
      tensor.nbytes());
  if (!piece.gpu_route) return false;
  const at::Tensor dense = dense_of(tensor);
  const std::shared_ptr<GpuSender> sender = core_.channels().gpu_to(destination_.rank, *piece.gpu_route);
  if (const std::optional<GpuPlace> place = sender->send(dense)) {
    piece.gpu_room = std::make_shared<GpuRoom>(sender, *place);
    piece.values = dense;
    return true;
  }
  piece.values = kept_until_sent(dense, tensor, unchanged, destination_);
  piece.made = made_on_current_stream(piece.values);
  return true;
}

/// Sends a tensor to a GPU of another machine, as a copy where it may be overwritten. Returns whether there
/// is such a way.
bool Packing::send_by_network(const at::Tensor& tensor, Unchanged unchanged, TensorPiece& piece) {
  if (!tensor.is_cuda() || tensor.nbytes() < Channels::kLeastNotedBytes) return false;
  piece.network_route = core_.channels().network_route(
      destination_.rank, {.mine = static_cast<int>(tensor.get_device()), .its = piece.destination.index});
  if (!piece.network_route) return false;
  piece.values = kept_until_sent(dense_of(tensor), tensor, unchanged, destination_);
  piece.made = made_on_current_stream(piece.values);
  return true;
}

std::int32_t Packing::add(std::shared_ptr<Holding> handle) {
  if (!handle) return -1;
  parcel_.handles.push_back(std::move(handle));
  return static_cast<std::int32_t>(parcel_.handles.size()) - 1;
}

at::Tensor Unpacking::tensor(std::int32_t place) {
  if (place < 0) return {};
  const auto index = at(place);
  if (index >= unpacked_.size()) throw CommError("the values of a call name a tensor that did not come");
  at::Tensor& unpacked = unpacked_[index];
  if (unpacked.defined()) return unpacked;
  const TensorPiece& piece = parcel_.tensors[index];
  unpacked = piece.values;
  if (piece.wait) piece.wait(unpacked);
  if (piece.destination.is_cuda() && !unpacked.is_cuda())
    unpacked = unpacked.to(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(piece.destination.index)));
  if (piece.requires_grad && !unpacked.requires_grad()) unpacked.set_requires_grad(true);
  return unpacked;
}

std::vector<at::Tensor> Unpacking::leaves() {
  std::vector<at::Tensor> leaves;
  for (std::size_t i = 0; i < parcel_.tensors.size(); ++i)
    if (parcel_.tensors[i].requires_grad) leaves.push_back(tensor(static_cast<std::int32_t>(i)));
  for (at::Tensor& each : unpacked_)
    if (each.defined()) each = following(each);
  return leaves;
}

const std::shared_ptr<Holding>& Unpacking::handle(std::int32_t place) const {
  static const std::shared_ptr<Holding> none;
  if (place < 0) return none;
  const auto index = at(place);
  if (index >= parcel_.handles.size())
    throw CommError("the values of a call name a handle that did not come");
  return parcel_.handles[index];
}

}  // namespace strata::rpc
