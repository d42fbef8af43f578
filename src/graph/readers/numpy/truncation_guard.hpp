// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>

namespace strata::graph {

/// While it lives, a file that is mapped and gets shorter does not end the process with SIGBUS: what went
/// reads as zeros, and refuse_truncated_inputs() throws. Makes the process handle SIGBUS; one for other
/// addresses goes to the handler from before. The first 256 guards at a time work, further ones do nothing.
class TruncationGuard {
 public:
  /// Guards the mapping [data, data + bytes) of a file.
  TruncationGuard(const std::byte* data, std::size_t bytes, const std::filesystem::path& file);
  ~TruncationGuard();
  TruncationGuard(const TruncationGuard&) = delete;
  TruncationGuard& operator=(const TruncationGuard&) = delete;

 private:
  int slot_ = -1;
};

}  // namespace strata::graph
