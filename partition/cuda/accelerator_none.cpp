// SPDX-License-Identifier: Apache-2.0
#include "multilevel/accelerator.hpp"
#include "strata/util/error.hpp"

namespace strata::partition {

std::unique_ptr<Accelerator> cuda_accelerator(const AcceleratorOptions&) {
  throw InputError("--device cuda: this program was built without CUDA",
                   "Use --device cpu, which gives the same parts, or build with the preset cuda.");
}

bool has_cuda_device() { return false; }

}  // namespace strata::partition
