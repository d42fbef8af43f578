// SPDX-License-Identifier: Apache-2.0
#include "strata/cuda/nvtx_range.hpp"

#include "backend.hpp"

namespace strata::cuda {

NvtxRange::NvtxRange(const char* name) { backend::push_range(name); }
NvtxRange::~NvtxRange() { backend::pop_range(); }

}  // namespace strata::cuda
