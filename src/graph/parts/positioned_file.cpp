// SPDX-License-Identifier: Apache-2.0
#include "parts/positioned_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::graph {
namespace {

constexpr Count kLongestCall = Count{1} << 30;  // Linux moves at most 2^31 - 4096 bytes per call

}  // namespace

PositionedFile::PositionedFile(std::filesystem::path path, Mode mode) : path_{std::move(path)} {
  descriptor_ = open(path_.c_str(), (mode == Mode::write ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  if (descriptor_ < 0) fail("open", errno);
  if (mode != Mode::read_on_demand) return;
  const struct stat now = status();
  device_ = static_cast<Count>(now.st_dev);
  inode_ = static_cast<Count>(now.st_ino);
  close(std::exchange(descriptor_, -1));
}

PositionedFile::PositionedFile(PositionedFile&& other) noexcept
    : path_{std::move(other.path_)},
      descriptor_{std::exchange(other.descriptor_, -1)},
      device_{other.device_},
      inode_{other.inode_} {}

PositionedFile& PositionedFile::operator=(PositionedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  return *this;
}

PositionedFile::~PositionedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void PositionedFile::fail(const char* call, int error) const {
  throw IoError(fmt::format("{}: {} failed: {}", path_.string(), call, std::strerror(error)),
                file_remedy(error));
}

void PositionedFile::read(void* out, Count bytes, Count offset) const {
  if (descriptor_ < 0) return opened().read(out, bytes, offset);
  auto* to = static_cast<char*>(out);
  while (bytes > 0) {
    const auto got = pread(descriptor_, to, at(std::min(bytes, kLongestCall)), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", errno);
    if (got == 0)
      throw IoError(fmt::format("{}: ends at byte {}, {} bytes missing", path_.string(), offset, bytes));
    to += got, bytes -= got, offset += got;
  }
}

void PositionedFile::write(const void* data, Count bytes, Count offset) const {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const auto put = pwrite(descriptor_, from, at(std::min(bytes, kLongestCall)), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("write", errno);
    from += put, bytes -= put, offset += put;
  }
}

void PositionedFile::reserve(Count bytes) const {
  if (bytes == 0) return;
  int error = 0;
  do {
    error = posix_fallocate(descriptor_, 0, bytes);
  } while (error == EINTR);
  if (error != 0) fail("reserving room", error);
}

void PositionedFile::start_flush() const { sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE); }

Count PositionedFile::size() const {
  return descriptor_ < 0 ? opened().size() : static_cast<Count>(status().st_size);
}

struct stat PositionedFile::status() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail("fstat", errno);
  return status;
}

/// The file of an on-demand reader, open. Another file of this name would not fit what is known of this one.
PositionedFile PositionedFile::opened() const {
  PositionedFile file(path_, Mode::read);
  const struct stat now = file.status();
  if (static_cast<Count>(now.st_dev) != device_ || static_cast<Count>(now.st_ino) != inode_)
    throw IoError(fmt::format("{}: was replaced while it was read", path_.string()),
                  "Start again, and leave the parts as they are meanwhile.");
  return file;
}

}  // namespace strata::graph
