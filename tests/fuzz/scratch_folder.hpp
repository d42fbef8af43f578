// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <fstream>
#include <string>

#include "fuzz_target.hpp"
#include "support/temporary_folder.hpp"

namespace strata::fuzz {

/// A folder in memory for readers that want one, removed at the end. An owner.
class ScratchFolder {
 public:
  const std::filesystem::path& path() const { return folder_.path(); }
  void write(const std::string& name, Bytes bytes) const {
    std::ofstream(path() / name, std::ios::binary | std::ios::trunc) << text_of(bytes);
  }

 private:
  static std::filesystem::path parent() {
    const std::filesystem::path memory = "/dev/shm";
    return std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
  }

  test::TemporaryFolder folder_{parent(), "fuzz"};  // tests look for what strata left in shared memory
};

}  // namespace strata::fuzz
