// SPDX-License-Identifier: Apache-2.0
#include "backend.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::cuda {

NvtxRange::NvtxRange(const char* name) { backend::push_range(name); }
NvtxRange::~NvtxRange() { backend::pop_range(); }

}  // namespace strata::cuda
