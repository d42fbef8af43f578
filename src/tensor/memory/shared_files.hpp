// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>

#include "strata/comm/machine.hpp"

namespace strata::tensor {

inline constexpr const char* kSharedFolder = "/dev/shm";

/// An owner of an open file, or of none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// An empty file in memory that all ranks of a machine have open, for mappings that they share.
struct SharedFile {
  FileDescriptor file;
  bool in_folder = false;  ///< of kSharedFolder, whose size limits it
};

/// Opens it. It has no name and no limit but the host's memory; other ranks open it through the first one's
/// process, and however the ranks end, the system takes it back.
///
/// Where a rank cannot see the first one's process (another container or PID namespace, where its path may
/// lead to another file; a hardened kernel), or with STRATA_SHARED_MEMORY=named in the environment, it is a
/// file of kSharedFolder that has a name until all have opened it, and no byte before. A rank that is killed
/// just then leaves an empty file behind, which the next named file removes.
///
/// Collective; throws IoError on all ranks alike.
SharedFile open_shared_file(const comm::Machine& machine);

}  // namespace strata::tensor
