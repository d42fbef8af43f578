// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/util/threads.hpp"

namespace strata::benchmark {

/// The least work to have files in memory: every rank reads an equal share of all blocks of 4 MiB
/// with pread, all threads of `pool` at once, into memory fresh from the system.
class PlainRead {
 public:
  /// Opens the files. Throws IoError.
  explicit PlainRead(const std::vector<std::filesystem::path>& paths);
  ~PlainRead();
  PlainRead(const PlainRead&) = delete;
  PlainRead& operator=(const PlainRead&) = delete;

  Count total_bytes() const { return total_bytes_; }  ///< of all files

  /// Seconds until every rank had read its share. Collective over the machine.
  double run(const comm::Machine& machine, ThreadPool& pool) const;

 private:
  struct File {
    std::filesystem::path path;
    int descriptor;
  };
  struct Block {
    const File* file;
    Count offset, bytes;
  };
  void read(const Block& block, std::byte* out) const;

  std::vector<File> files_;
  std::vector<Block> blocks_;
  Count total_bytes_ = 0;
};

}  // namespace strata::benchmark
