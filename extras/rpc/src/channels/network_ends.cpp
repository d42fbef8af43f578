// SPDX-License-Identifier: Apache-2.0
#include "channels/network_ends.hpp"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "strata/cuda/device.hpp"
#include "strata/rpc/channel.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"

namespace strata::rpc {
namespace {

using Step = RouteNote::Step;
using End = comm::DevicePipe::End;

NcclEnd::Setup nccl_setup(const RouteSetup& setup, End end) {
  return {.device = setup.device,
          .end = end,
          .is_allowed = setup.uses_nccl,
          .timeout = setup.timeout,
          .who = setup.here,
          .places = setup.places};
}

std::vector<comm::DevicePipe::Part> parts_of(const std::vector<at::Tensor>& tensors) {
  std::vector<comm::DevicePipe::Part> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back({tensor.mutable_data_ptr(), tensor.nbytes()});
  return parts;
}

}  // namespace

// ---- sender ----

NetworkSender::NetworkSender(RouteSetup setup)
    : setup_(std::move(setup)), nccl_(nccl_setup(setup_, End::sends), jobs_), jobs_(setup_.busy_poll) {}

void NetworkSender::send(Transfer transfer) {
  jobs_.push([this, sent = std::move(transfer)] { deliver(sent); });
}

void NetworkSender::heard(const RouteNote& note) {
  const std::lock_guard lock(mutex_);
  if (note.step == Step::accept) accepted_ = note.transfer;
  if (note.step == Step::done) done_ = note.transfer;
  if (note.step == Step::closed) {
    receiver_closed_ = true;
    nccl_.give_up(note.text);
  }
}

void NetworkSender::join() {
  jobs_.join();
  nccl_.leave();
}

bool NetworkSender::is_noted(const std::optional<std::uint64_t>& last, std::uint64_t transfer) const {
  const std::lock_guard lock(mutex_);
  return last == transfer;
}

void NetworkSender::deliver(const Transfer& transfer) {
  try {
    const cuda::DeviceGuard guard(setup_.device);
    if (nccl_.is_usable() && send_by_nccl(transfer)) return;
    send_in_pieces(transfer);
  } catch (const std::exception& error) {  // the call ends with its timeout
    if (!jobs_.is_stopped())
      spdlog::warn("rpc: {}: a tensor for {} cannot be sent: {}", setup_.here, setup_.peer, error.what());
  }
}

/// Returns whether the tensors are there.
bool NetworkSender::send_by_nccl(const Transfer& transfer) {
  try {
    transfer_by_nccl(transfer);
    return true;
  } catch (const std::exception& error) {
    leave_nccl(error.what());
    return is_noted(done_, transfer.number);
  }
}

void NetworkSender::transfer_by_nccl(const Transfer& transfer) {
  if (!nccl_.is_open()) {
    const std::string id = comm::make_device_pipe_id();
    setup_.outlet.send_note({.step = Step::open, .route = setup_.number, .text = id});
    nccl_.open(id);
  }
  std::vector<at::Tensor> tensors;
  for (const Part& part : transfer.parts) {
    nccl_.wait_patiently_until([&] { return !part.made || part.made->is_complete(); });
    tensors.push_back(part.values);
  }
  setup_.outlet.send_note({.step = Step::offer, .route = setup_.number, .transfer = transfer.number});
  nccl_.wait_until([&] { return is_noted(accepted_, transfer.number) || is_noted(done_, transfer.number); });
  if (is_noted(done_, transfer.number)) return;  // it had no room
  {
    const std::shared_ptr<void> place = nccl_.take_place();
    nccl_.transfer(parts_of(tensors));
  }
  for (const at::Tensor& tensor : tensors) setup_.outlet.count(tensor.nbytes());
  nccl_.wait_until([&] { return is_noted(done_, transfer.number); });
}

/// Leaves NCCL: afterwards the receiver takes nothing by it any more, and it is known what it has taken.
void NetworkSender::leave_nccl(const std::string& reason) {
  nccl_.leave();
  setup_.outlet.send_note({.step = Step::fail, .route = setup_.number, .text = reason});
  nccl_.wait_until([&] {
    const std::lock_guard lock(mutex_);
    return receiver_closed_;
  });
  spdlog::warn("rpc: no NCCL from {} to {}, so that tensors between their GPUs take {}: {}", setup_.here,
               setup_.peer, enum_name(Channel::tcp), reason);
}

void NetworkSender::send_in_pieces(const Transfer& transfer) {
  struct Sending {
    NetworkPiece piece;
    Staging::Copy copy;
  };
  std::deque<Sending> copies;
  const auto send_first = [&] {
    Sending first = std::move(copies.front());
    copies.pop_front();
    first.copy.done.synchronize();
    setup_.outlet.send_piece(first.piece, std::move(first.copy.staged));
  };
  if (!staging_) staging_.emplace(setup_.device, NetworkPiece::kMostBytes);
  for (const Part& part : transfer.parts) {
    nccl_.wait_patiently_until([&] { return !part.made || part.made->is_complete(); });
    for (std::size_t offset = 0; offset < part.values.nbytes(); offset += NetworkPiece::kMostBytes) {
      if (copies.size() == Staging::kBlocks / 2) send_first();  // and the rest of the blocks are with TCP
      nccl_.wait_patiently_until([&] { return staging_->has_block(); });
      const std::size_t bytes = std::min(NetworkPiece::kMostBytes, part.values.nbytes() - offset);
      copies.push_back({.piece = {.route = setup_.number,
                                  .transfer = transfer.number,
                                  .tensor = part.place,
                                  .offset = offset,
                                  .bytes = bytes},
                        .copy = staging_->copy(
                            static_cast<const std::byte*>(part.values.const_data_ptr()) + offset, bytes)});
    }
  }
  while (!copies.empty()) send_first();
}

// ---- receiver ----

NetworkReceiver::NetworkReceiver(RouteSetup setup)
    : setup_(std::move(setup)),
      stream_(pool_stream(setup_.device)),
      nccl_(nccl_setup(setup_, End::receives), jobs_),
      jobs_(setup_.busy_poll) {}

void NetworkReceiver::send_note(Step step, std::uint64_t transfer, std::string text) const {
  setup_.outlet.send_note(
      {.step = step, .route = setup_.number, .transfer = transfer, .text = std::move(text)});
}

void NetworkReceiver::refuse(std::uint64_t transfer) const { send_note(Step::done, transfer); }

/// Runs a job; if it fails, this end takes no more by NCCL, and sends the sender a note.
void NetworkReceiver::run(const std::function<void()>& job) {
  if (!nccl_.is_usable()) return;
  try {
    const cuda::DeviceGuard guard(setup_.device);
    job();
  } catch (const std::exception& error) {
    nccl_.leave();
    if (!jobs_.is_stopped()) send_note(Step::closed, 0, error.what());
  }
}

void NetworkReceiver::heard(const RouteNote& note) {
  if (note.step == Step::open) {
    jobs_.push([this, id = note.text] { run([&] { nccl_.open(id); }); });
  } else if (note.step == Step::fail) {
    nccl_.give_up(note.text);  // for the job that runs
    jobs_.push([this, reason = note.text] { run([&] { throw CommError(reason); }); });
  }
}

void NetworkReceiver::join() {
  jobs_.join();
  nccl_.leave();
}

void NetworkReceiver::receive(std::uint64_t transfer, std::vector<at::Tensor> tensors) {
  jobs_.push([this, transfer, moved = std::move(tensors)] { run([&] { receive_now(transfer, moved); }); });
}

void NetworkReceiver::receive_now(std::uint64_t transfer, const std::vector<at::Tensor>& tensors) {
  if (!nccl_.is_open()) throw CommError("an offer on a route that is not open");
  if (target().is_cuda()) {
    c10::Event free(c10::kCUDA);  // what used the memory before
    free.record(stream_);
    nccl_.wait_patiently_until([&] { return free.query(); });
  }
  const std::shared_ptr<void> place = nccl_.take_place();
  send_note(Step::accept, transfer);
  nccl_.transfer(parts_of(tensors));
  std::size_t total = 0;
  for (const at::Tensor& tensor : tensors) {
    setup_.outlet.count(tensor.nbytes());
    total += tensor.nbytes();
  }
  send_note(Step::done, transfer);
  setup_.outlet.arrived(transfer, total);
}

void NetworkReceiver::take_piece(const NetworkPiece& piece, const at::Tensor& bytes,
                                 const at::Tensor& tensor) const {
  if (piece.offset > tensor.nbytes() || bytes.nbytes() > tensor.nbytes() - piece.offset)
    throw CommError("a piece of a tensor does not fit into it");
  const c10::StreamGuard on_stream(stream_);
  tensor.reshape({-1})
      .view(at::kByte)
      .narrow(0, static_cast<std::int64_t>(piece.offset), bytes.numel())
      .copy_(bytes, true);
}

}  // namespace strata::rpc
