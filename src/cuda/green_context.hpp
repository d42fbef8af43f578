// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/cuda/sm_group.hpp"

struct CUgreenCtx_st;
struct CUstream_st;

namespace strata::cuda::backend {

/// Owns a green context of the CUDA driver.
class GreenContext {
 public:
  GreenContext(CUgreenCtx_st* handle, int num_sms) : handle_(handle), num_sms_(num_sms) {}
  ~GreenContext();
  GreenContext(const GreenContext&) = delete;
  GreenContext& operator=(const GreenContext&) = delete;

  int num_sms() const { return num_sms_; }
  CUstream_st* create_stream(int priority) const;

 private:
  CUgreenCtx_st* handle_;
  int num_sms_;
};

}  // namespace strata::cuda::backend
