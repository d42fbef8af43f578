// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <malloc.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace strata::test {

/// What this process holds of the system.
struct ProcessUse {
  std::int64_t memory_kib = 0;     ///< of its own, not shared with others
  std::int64_t allocated_kib = 0;  ///< by malloc, and not freed
  std::int64_t files = 0;          ///< open, sockets included
  std::int64_t mappings = 0;       ///< of memory that others can map too

  static ProcessUse now() {
    ProcessUse use;
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
      if (word == "RssAnon:") status >> use.memory_kib;
    const struct mallinfo2 heap = mallinfo2();
    use.allocated_kib = static_cast<std::int64_t>((heap.uordblks + heap.hblkhd) / 1024);
    use.files = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      use.mappings += line.find(" rw-s ") != std::string::npos ? 1 : 0;
    return use;
  }
};

}  // namespace strata::test
