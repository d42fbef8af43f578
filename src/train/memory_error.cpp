// SPDX-License-Identifier: Apache-2.0
#include "memory_error.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <new>
#include <string>

#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::train {
namespace {

/// "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.72 GiB of which 1.3 GiB
/// is free." What follows is advice on libtorch's own settings.
std::string facts_of(const c10::OutOfMemoryError& error) {
  const std::string text = error.what_without_backtrace();
  constexpr const char* kLast = " is free.";
  const std::size_t last = text.find(kLast);
  return last == std::string::npos ? text : text.substr(0, last + std::char_traits<char>::length(kLast));
}

}  // namespace

void rethrow_explained() {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    throw OutOfMemory(
        "training found no room: " + facts_of(error),
        "Lower --batch-size, --fanouts or --hidden; or lower --gpu-memory, which is the graph's share "
        "of the GPU; or use more GPUs.");
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(
        fmt::format("training found no room in host memory: free {}", format_bytes(available_host_bytes())),
        "Lower --batch-size, --fanouts or --hidden, or use more machines.");
  }
}

}  // namespace strata::train
