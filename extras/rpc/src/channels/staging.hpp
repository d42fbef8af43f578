// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::rpc {

/// Bytes in host memory that are still read.
struct StagedBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> memory;
};

/// A few blocks of pinned host memory, through which tensors of a GPU pass on a stream of its own. Used on
/// one thread; the blocks come back from any.
class Staging {
 public:
  static constexpr int kBlocks = 4;

  Staging(Device device, std::size_t block_bytes);

  /// A copy from the device that is under way.
  struct Copy {
    StagedBytes staged;
    cuda::Event done;
  };
  bool has_block() const;
  /// Begins a copy. REQUIRES: has_block(); bytes fit in one. The block is free again after the bytes' last
  /// owner.
  Copy copy(const void* from, std::size_t bytes);

 private:
  struct Blocks;
  const Device device_;
  const std::shared_ptr<Blocks> blocks_;
  const cuda::Stream stream_;
};

}  // namespace strata::rpc
