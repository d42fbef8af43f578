// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/mount.h>

#include <filesystem>
#include <string>

namespace strata::test {

/// A small file system of its own, where this process may mount one. An owner.
class SmallDisk {
 public:
  SmallDisk(const std::filesystem::path& path, const char* size) : path_{path} {
    std::filesystem::create_directory(path);
    mounted_ = mount("tmpfs", path.c_str(), "tmpfs", 0, (std::string("size=") + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount(path_.c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

}  // namespace strata::test
