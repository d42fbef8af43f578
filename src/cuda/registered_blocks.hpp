// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace strata::cuda {

/// Host memory is registered in blocks that end at multiples of this address, and CUDA refuses a copy that
/// crosses from one block into the next. Because an address is enough to find the end of its block, every
/// copy can be cut there without knowing what was registered.
///
/// A block is 64 GiB; STRATA_REGISTRATION_BLOCK=SIZE in the environment makes it smaller, for tests of its
/// ends. Throws InputError if SIZE is no multiple of a page.
std::size_t registration_block();

/// The bytes from `address` to the end of its block.
///
///     bytes_to_end(address 70, block 64) = 58
inline std::size_t bytes_to_end(const void* address, std::size_t block) {
  return block - reinterpret_cast<std::uintptr_t>(address) % block;
}

inline bool crosses_end(const void* address, std::size_t bytes, std::size_t block) {
  return bytes > bytes_to_end(address, block);
}

/// Calls use(offset, size) for pieces of [0, bytes), in ascending order. No piece crosses the end of a block
/// at either address.
///
///     to 60, from 100, 20 bytes, blocks of 64:   use(0, 4) use(4, 16)
template <typename Use>
void for_each_piece(const void* to, const void* from, std::size_t bytes, std::size_t block, Use&& use) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece =
        std::min({bytes - done, bytes_to_end(static_cast<const std::byte*>(to) + done, block),
                  bytes_to_end(static_cast<const std::byte*>(from) + done, block)});
    use(done, piece);
    done += piece;
  }
}

}  // namespace strata::cuda
