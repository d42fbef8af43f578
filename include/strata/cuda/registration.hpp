// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace strata::cuda {

/// Registers host memory with CUDA so that kernels read it in place; an owner of the registration, not of the
/// memory. Memory is registered in blocks of at most 64 GiB, which end at multiples of 64 GiB. Does nothing
/// without a GPU. Throws CudaError with the remedy (the memlock limit).
class Registration {
 public:
  Registration() = default;
  Registration(void* data, std::size_t bytes);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace strata::cuda
