// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>

#include "strata/comm/machine.hpp"
#include "strata/cuda/device.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::tensor {
namespace {

/// The GPUs that a process sees, one after the other; all names have the same length.
std::string visible_uuids() {
  std::string names;
  for (int device = 0; device < cuda::device_count(); ++device) names += cuda::device_uuid(device);
  return names;
}

void add_idle(const comm::Machine& machine, const std::vector<std::string>& driven, GpuMap& map) {
  std::set<std::string> taken(driven.begin(), driven.end());
  const std::size_t length = driven.front().size();
  const std::vector<std::string> visible = machine.communicator().all_gather(visible_uuids());
  for (std::size_t rank = 0; rank < visible.size(); ++rank) {
    for (std::size_t at = 0; at < visible[rank].size(); at += length) {
      if (!taken.insert(visible[rank].substr(at, length)).second) continue;
      map.gpus.push_back({static_cast<int>(rank), static_cast<int>(at / length)});
    }
  }
}

}  // namespace

GpuMap gpus_of(const comm::Machine& machine, bool with_idle) {
  const Device device = machine.device();
  const std::vector<std::string> uuids =
      machine.communicator().all_gather(device.is_cuda() ? cuda::device_uuid(device.index) : std::string());
  GpuMap map;
  if (std::ranges::find(uuids, std::string()) != uuids.end()) return map;
  std::vector<std::int64_t> indices(uuids.size(), 0);
  indices[static_cast<std::size_t>(machine.rank())] = device.index;
  machine.communicator().all_reduce(std::span(indices), comm::Communicator::Op::sum);
  const std::string& own = uuids[static_cast<std::size_t>(machine.rank())];
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
    const auto before = uuids.begin() + static_cast<std::ptrdiff_t>(rank);
    if (std::find(uuids.begin(), before, uuids[rank]) != before) continue;
    if (uuids[rank] == own) map.mine = map.size();
    map.gpus.push_back({static_cast<int>(rank), static_cast<int>(indices[rank])});
  }
  if (with_idle) add_idle(machine, uuids, map);
  return map;
}

std::int64_t gpu_budget(const comm::Machine& machine, std::int64_t budget) {
  if (!comm::computes_on_gpus(machine)) return 0;
  std::int64_t least = budget / std::max(1, comm::resources_of(machine).gpu_sharers());
  machine.communicator().all_reduce(std::span(&least, 1), comm::Communicator::Op::min);
  return least;
}

}  // namespace strata::tensor
