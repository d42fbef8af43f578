// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

namespace strata::batches {

/// Between memory of one device; addresses and bytes are multiples of 4.
struct ArrayCopy {
  void* to = nullptr;
  const void* from = nullptr;
  Count bytes = 0;
};

/// Copies arrays that do not overlap: at once on the cpu, else asynchronously on `stream`, in one launch for
/// every 64 of them. A cudaMemcpyAsync for each would cost the caller more than the copies take.
void copy_arrays(std::span<const ArrayCopy> copies, const cuda::Stream& stream);
void copy_arrays_on_gpu(std::span<const ArrayCopy> copies, const cuda::Stream& stream);

/// Cuts arrays out of one piece of memory, and lists what is to be copied there. Without memory it only
/// counts what the arrays take.
class Carver {
 public:
  explicit Carver(std::byte* memory = nullptr) : memory_(memory) {}

  template <typename T>
  T* take(Count size) {
    constexpr std::size_t kAlignment = 64;
    auto* const array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    const std::size_t taken = at(size) * sizeof(T);
    bytes_ += (taken + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }
  /// An array that gets a copy of another one.
  template <typename T>
  const T* take_copy(const T* from, Count size) {
    T* const to = take<T>(size);
    copy(to, from, size);
    return to;
  }
  template <typename T>
  void copy(T* to, const T* from, Count size) {
    if (memory_ != nullptr)
      copies_.push_back({.to = to, .from = from, .bytes = size * static_cast<Count>(sizeof(T))});
  }

  std::size_t bytes() const { return bytes_; }
  const std::vector<ArrayCopy>& copies() const { return copies_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
  std::vector<ArrayCopy> copies_;
};

}  // namespace strata::batches
