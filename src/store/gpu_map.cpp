#include "gpu_map.hpp"

#include <algorithm>
#include <string>

#include "strata/cuda/runtime.hpp"

namespace strata::store {

GpuMap gpus_of(const comm::Machine& machine) {
  const Device device = machine.device();
  const std::vector<std::string> uuids =
      machine.communicator().all_gather(device.is_cuda() ? cuda::device_uuid(device.index) : std::string());
  GpuMap map;
  if (std::ranges::find(uuids, std::string()) != uuids.end()) return map;
  const std::string& own = uuids[static_cast<std::size_t>(machine.rank())];
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
    const auto before = uuids.begin() + static_cast<std::ptrdiff_t>(rank);
    if (std::find(uuids.begin(), before, uuids[rank]) != before) continue;
    if (uuids[rank] == own) map.mine = map.size();
    map.owner.push_back(static_cast<int>(rank));
  }
  map.sharers = static_cast<int>(std::ranges::count(uuids, own));
  return map;
}

}  // namespace strata::store
