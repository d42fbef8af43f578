// SPDX-License-Identifier: Apache-2.0
#include <torch/version.h>

#include "strata/comm/launcher.hpp"
#include "strata/cuda/device.hpp"
#include "strata/graph/graph.hpp"
#include "strata/train/trainer.hpp"

namespace strata::train {

std::vector<std::string> library_versions() {
  std::vector<std::string> versions{std::string("libtorch ") + TORCH_VERSION};
  for (std::string& version : comm::library_versions()) versions.push_back(std::move(version));
  for (std::string& version : cuda::library_versions()) versions.push_back(std::move(version));
  versions.push_back(graph::hdf5_version());
  return versions;
}

}  // namespace strata::train
