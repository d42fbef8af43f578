// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/stat.h>

#include <filesystem>

#include "strata/util/types.hpp"

namespace strata::graph {

/// A file that is read and written at given offsets. An owner of its descriptor. Calls are thread safe.
/// Throws IoError naming the file.
class PositionedFile {
 public:
  enum class Mode {
    read,
    read_on_demand,  ///< opened for each reading, so that any number of files can be in use
    write,
  };
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
  struct stat status() const;
  PositionedFile opened() const;

  std::filesystem::path path_;
  int descriptor_ = -1;             ///< -1 if it is opened on demand
  Count device_ = -1, inode_ = -1;  ///< of a file that is opened on demand
};

}  // namespace strata::graph
