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
  bool in_folder = false;  ///< the file lies in kSharedFolder, whose size limits it
};

/// Opens such a file. It has no name, and only the host's memory limits it. The other ranks open it through
/// the first rank's process, and the system frees it however the ranks end.
///
/// A file in kSharedFolder is used instead with STRATA_SHARED_MEMORY=named in the environment, or if a rank
/// cannot see the first rank's process: in another container or PID namespace, where its path may lead to
/// another file, or with a hardened kernel. This file has a name only until all ranks have opened it, and is
/// empty until then. A rank that is killed in this moment leaves an empty file behind, which the next named
/// file of the same user removes. Files by other names than these, "strata-PID-" and 16 hexadecimal digits,
/// are left alone.
///
/// Collective; throws IoError on all ranks alike.
SharedFile open_shared_file(const comm::Machine& machine);

}  // namespace strata::tensor
