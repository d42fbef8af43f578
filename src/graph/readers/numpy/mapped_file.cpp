// SPDX-License-Identifier: Apache-2.0
#include "readers/numpy/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "strata/util/error.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int code) {
  const std::string reason = std::generic_category().message(code);
  if (code == ENOENT || code == ENOTDIR)
    throw InputError(fmt::format("{}: no such file", path.string()), "Check the path.");
  throw IoError(fmt::format("{}: {} failed: {}", path.string(), what, reason),
                "Check that the file can be read.");
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail(path, "open", errno);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) fail(path, "fstat", errno);
  if (!S_ISREG(status.st_mode))
    throw InputError(fmt::format("{}: not a regular file", path.string()), "Check the path.");
  size_ = at(status.st_size);
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) fail(path, "mmap", errno);
  data_ = static_cast<const std::byte*>(mapped);
  guard_.emplace(data_, size_, path);
}

MappedFile::~MappedFile() {
  guard_.reset();
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace strata::graph
