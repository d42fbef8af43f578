// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "strata/cuda/device.hpp"

namespace strata::cuda {

struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0;
  bool operator==(const PciAddress&) const = default;
};

/// What NVML reports about one GPU and another.
struct PairFacts {
  bool over_nvlink = false;              ///< copies between the two take NVLink
  PciAddress peer = {};                  ///< the other GPU
  std::vector<PciAddress> nvlinks = {};  ///< what each NVLink of the one GPU that is up ends at
  std::optional<int> ancestor = {};      ///< nvmlGpuTopologyLevel_t: where their ways on PCIe meet
};

/// PeerLink::path of the pair. NVLinks that end at switches reach every GPU.
std::string path_of(const PairFacts& facts);

/// Fills in PeerLink::path. Leaves it empty where the driver's library NVML is not there or does not know.
void find_paths(std::vector<PeerLink>& links);

}  // namespace strata::cuda
