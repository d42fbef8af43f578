// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>

namespace strata::tensor {

struct Bytes {
  std::byte* data;
  std::size_t size;
};

/// Populates all pages of a mapping now, with `num_threads` threads. So each page is zeroed once, on the NUMA
/// node of one of the threads, and full memory is an error here, not a SIGBUS or the end of the process at
/// the first touch. Returns 0 or an errno. Kernels before 5.14 still populate pages at the first touch.
int populate(const Bytes& bytes, int num_threads);

/// Whether the kernel has MADV_POPULATE_WRITE. Without it, a shared mapping does not report full memory.
bool can_populate(const Bytes& page);

/// The same for memory of only this process. Throws OutOfMemory.
void take_private_pages(const Bytes& bytes, int num_threads, const std::string& name);

[[noreturn]] void host_memory_full(std::size_t bytes, const std::string& name, const std::string& reason);

}  // namespace strata::tensor
