// SPDX-License-Identifier: Apache-2.0
#include "channels/staging.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "strata/cuda/buffer.hpp"

namespace strata::rpc {

struct Staging::Blocks {
  Blocks(Device device, std::size_t bytes)
      : block_bytes(bytes), memory(cuda::Memory::pinned, kBlocks * bytes, "tensors on their way", device) {}
  const std::size_t block_bytes;
  cuda::Buffer memory;
  std::array<std::atomic<bool>, kBlocks> taken{};
};

Staging::Staging(Device device, std::size_t block_bytes)
    : device_(device), blocks_(std::make_shared<Blocks>(device, block_bytes)), stream_(device) {}

bool Staging::has_block() const {
  return std::ranges::any_of(blocks_->taken, [](const auto& taken) { return !taken; });
}

Staging::Copy Staging::copy(const void* from, std::size_t bytes) {
  const auto free = std::ranges::find_if(blocks_->taken, [](const auto& taken) { return !taken; });
  *free = true;
  auto* const block = static_cast<std::byte*>(blocks_->memory.data()) +
                      at(free - blocks_->taken.begin()) * blocks_->block_bytes;
  Copy copy{.staged = {.bytes = {block, bytes},
                       .memory = {block, [blocks = blocks_, free](const void*) { *free = false; }}},
            .done = cuda::Event(device_)};
  cuda::copy_async(block, from, bytes, stream_);
  copy.done.record(stream_);
  return copy;
}

}  // namespace strata::rpc
