// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strata::cuda {

/// An NVTX range around a scope; nothing without CUDA.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace strata::cuda
