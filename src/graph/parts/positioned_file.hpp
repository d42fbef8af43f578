// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

#include "strata/util/types.hpp"

namespace strata::graph {

/// A file descriptor that reads and writes at given places; an owner. Calls are thread safe. Throws IoError
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
  void reserve(Count bytes) const;  ///< room on disk for the first `bytes`; a full disk is told here
  void start_flush() const;         ///< begins to write back, does not wait
  Count size() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void fail(const char* call, int error) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace strata::graph
