#pragma once
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "fuzz_target.hpp"

namespace strata::fuzz {

/// A folder in memory for readers that want one, removed at the end. An owner.
class ScratchFolder {
 public:
  ScratchFolder() {
    const bool in_memory = std::filesystem::is_directory("/dev/shm");
    const auto parent =
        in_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
    std::string pattern = (parent / "strata-fuzz-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, Bytes bytes) const {
    std::ofstream(path_ / name, std::ios::binary | std::ios::trunc) << text_of(bytes);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace strata::fuzz
