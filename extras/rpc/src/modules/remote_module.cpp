// SPDX-License-Identifier: Apache-2.0
#include "strata/rpc/remote_module.hpp"

#include <fmt/format.h>

#include <charconv>

#include "core.hpp"
#include "strata/nn/weights.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::rpc::detail {
namespace {

std::optional<Device> parse_device(std::string_view text) {
  constexpr std::string_view kCuda = "cuda:";
  if (text == "cpu") return Device{};
  if (!text.starts_with(kCuda)) return std::nullopt;
  Device device{.kind = Device::Kind::cuda};
  const auto [end, error] =
      std::from_chars(text.data() + kCuda.size(), text.data() + text.size(), device.index);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && device.index >= 0;
  return is_number ? std::optional(device) : std::nullopt;
}

}  // namespace

Place parse_place(const Agent& agent, const std::string& text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string peer = text.substr(0, slash);
  const std::string rest = slash == text.size() ? "cpu" : text.substr(slash + 1);
  const std::shared_ptr<Core> core = core_of(agent);
  const AgentFacts& facts = core->agent(rank_of(peer, core->agents()));
  const std::optional<Device> device = parse_device(rest);
  if (!device)
    throw InputError(fmt::format("'{}' in '{}' is no device", rest, text),
                     fmt::format("Write {0}, {0}/cpu or {0}/cuda:N.", peer));
  if (device->is_cuda() && device->index >= facts.num_devices)
    throw InputError(fmt::format("{} has no {}: it sees {} on {}", peer, rest,
                                 counted(facts.num_devices, "GPU"), facts.host));
  return {.peer = peer, .device = *device};
}

at::Device torch_device(Device device) {
  return device.is_cuda() ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index))
                          : at::Device(at::kCPU);
}

void note_device(at::Device device) { set_working_device(device.str()); }

std::vector<Ref<at::Tensor>> handles_of(const torch::nn::Module& module) {
  std::vector<Ref<at::Tensor>> handles;
  for (const at::Tensor& parameter : module.parameters())
    handles.emplace_back(working_core()->keep(rpc::object_of(std::make_shared<at::Tensor>(parameter))));
  return handles;
}

void save(const torch::nn::Module& module, const std::string& path) {
  nn::write_tensors(path, {.tensors = nn::weights_of(module), .metadata = {}});
}

void load(torch::nn::Module& module, const std::string& path) {
  nn::load_weights(module, nn::read_tensors(path), path);
}

}  // namespace strata::rpc::detail
