// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "strata/util/types.hpp"

namespace strata::loader {

/// Cuts arrays out of one piece of memory. Without memory it only counts what they take.
class Carver {
 public:
  explicit Carver(std::byte* memory = nullptr) : memory_(memory) {}

  template <typename T>
  T* take(Count size) {
    constexpr std::size_t kAlignment = 64;
    auto* const array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    const std::size_t taken = static_cast<std::size_t>(size) * sizeof(T);
    bytes_ += (taken + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

}  // namespace strata::loader
