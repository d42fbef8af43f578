// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

#include "strata/util/types.hpp"

namespace strata::graph {

/// A file descriptor that reads and writes at given offsets. An owner. Calls are thread safe. Throws IoError
/// naming the file.
class PositionedFile {
 public:
  enum class Mode { read, write };
  PositionedFile(std::filesystem::path path, Mode mode);
  PositionedFile(PositionedFile&& other) noexcept;
  PositionedFile& operator=(PositionedFile&& other) noexcept;
  ~PositionedFile();

  void read(void* out, Count bytes, Count offset) const;
  void write(const void* data, Count bytes, Count offset) const;
  /// Reserves room on disk for the first `bytes`; throws if the disk is full.
  void reserve(Count bytes) const;
  void start_flush() const;  ///< begins to write back, without waiting
  Count size() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void fail(const char* call, int error) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace strata::graph
