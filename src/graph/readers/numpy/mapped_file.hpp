// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>

#include "readers/numpy/truncation_guard.hpp"

namespace strata::graph {

/// A whole file, mapped read-only. An owner. An empty file has null data. If the file gets shorter, what went
/// reads as zeros, and refuse_truncated_inputs() throws.
class MappedFile {
 public:
  /// Throws InputError if there is no such file, IoError if it cannot be opened or mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::optional<TruncationGuard> guard_;
};

}  // namespace strata::graph
