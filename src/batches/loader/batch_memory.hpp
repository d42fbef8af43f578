// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::batches {

/// Memory of one batch.
struct BatchPiece {
  cuda::Array<std::byte> arrays;
  cuda::Array<float> features;
  cuda::Stream stream;  // borrowed: its user's
  cuda::Event read;     // its last user has read it
};

/// Memory of batches, which returns when a batch is gone and is given to later ones. Thread safe; an owner,
/// which pieces that are still in use outlive.
class BatchMemory {
 public:
  explicit BatchMemory(Device device);
  ~BatchMemory();  ///< what returns from now on is freed
  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;

  /// For work on `stream`, which waits until the last user of the piece has read it. `stream` is one that
  /// lives as long as the piece is used.
  std::shared_ptr<BatchPiece> take(const cuda::Stream& stream);
  Count made() const;
  Count held() const;

 private:
  struct Returned;
  std::shared_ptr<Returned> returned_;
};

}  // namespace strata::batches
