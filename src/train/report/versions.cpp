// SPDX-License-Identifier: Apache-2.0
#include "strata/train/versions.hpp"

#include <torch/version.h>

#include "strata/comm/versions.hpp"
#include "strata/cuda/versions.hpp"
#include "strata/graph/versions.hpp"

namespace strata::train {

std::vector<std::string> library_versions() {
  std::vector<std::string> versions{std::string("libtorch ") + TORCH_VERSION};
  for (std::string& version : comm::library_versions()) versions.push_back(std::move(version));
  for (std::string& version : cuda::library_versions()) versions.push_back(std::move(version));
  versions.push_back(graph::hdf5_version());
  return versions;
}

}  // namespace strata::train
