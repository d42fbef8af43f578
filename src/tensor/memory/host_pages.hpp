// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>

namespace strata::tensor {

struct Bytes {
  std::byte* data;
  std::size_t size;
};

/// Takes all pages of a mapping from the system now, by that many threads, so that each is zeroed once, on
/// the NUMA node of one of them, and that memory which is full is an error here and not a SIGBUS, or the end
/// of the process, at the first touch. 0, or why not (an errno). Kernels before 5.14 take pages at the first
/// touch.
int populate(const Bytes& bytes, int num_threads);

/// Kernels without MADV_POPULATE_WRITE cannot tell that a shared mapping has no room.
bool can_populate(const Bytes& page);

/// populate(), for memory of this process only. Throws OutOfMemory.
void take_private_pages(const Bytes& bytes, int num_threads, const std::string& name);

[[noreturn]] void host_memory_full(std::size_t bytes, const std::string& name, const std::string& reason);

}  // namespace strata::tensor
