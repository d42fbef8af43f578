// SPDX-License-Identifier: Apache-2.0
#include "evaluation/prediction_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/random.hpp"
#include "strata/util/text.hpp"

namespace strata::train {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw IoError(fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)), file_remedy(errno));
}

void write_at(int fd, const char* data, std::size_t bytes, Count offset, const std::string& path) {
  while (bytes > 0) {
    const ssize_t written = ::pwrite(fd, data, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path);
    data += written;
    offset += written;
    bytes -= at(written);
  }
}

/// Waits for a file that another host made a moment ago, which a network file system may show late.
int open_existing(const std::string& path) {
  constexpr int kTries = 30;
  constexpr std::chrono::milliseconds kPause{100};
  int fd = -1;
  for (int i = 0; fd < 0 && i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(kPause);
    fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno != ENOENT && errno != ESTALE) break;
  }
  return fd;
}

/// Gives the file its final length, and reserves its disk space if the file system can.
void reserve(int fd, Count bytes, const std::string& path) {
  if (::fallocate(fd, 0, 0, bytes) == 0) return;
  const int code = errno;
  const bool knows = code != EOPNOTSUPP && code != ENOSYS && code != EINVAL;
  const Count free = free_disk_bytes(folder_of(path));
  if (knows ? code == ENOSPC || code == EDQUOT || code == EFBIG : free < bytes) {
    throw IoError(fmt::format("--output: no room for {}: wanted {}, {} are free", path, format_bytes(bytes),
                              format_bytes(free)),
                  file_remedy(knows ? code : ENOSPC));
  }
  errno = code;
  if (knows) fail("reserve", path);
  if (::ftruncate(fd, bytes) != 0) fail("extend", path);
}

}  // namespace

PredictionFile::PredictionFile(const std::string& path, Count rows, Count cols,
                               const comm::Communicator& communicator)
    : path_(path), communicator_(communicator), cols_(cols) {
  std::int64_t process = ::getpid();  // as write_file_atomically() names its files
  communicator.broadcast(&process, sizeof(process), 0);
  temporary_ = fmt::format("{}.tmp{}", path, process);
  const std::string header = graph::npy_header(DType::f32, {rows, cols});
  header_bytes_ = static_cast<Count>(header.size());
  const Count data_bytes = rows * cols * static_cast<Count>(sizeof(float));
  // A mark by which the other ranks recognise the first rank's file; rows overwrite it.
  std::uint64_t number = std::random_device()();
  communicator.broadcast(&number, sizeof(number), 0);
  const std::string mark = hex64(mix64(number)).substr(0, at(data_bytes));
  try {
    communicator.together([&] {
      if (communicator.rank() == 0) create(header, header_bytes_ + data_bytes, mark);
    });
    communicator.together([&] {
      if (communicator.rank() > 0) open(header_bytes_ + data_bytes, mark);
    });
  } catch (...) {
    remove();
    throw;
  }
}

void PredictionFile::create(const std::string& header, Count bytes, const std::string& mark) {
  remove_temporaries_of(path_);  // of runs that were killed
  fd_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("create", temporary_);
  reserve(fd_, bytes, temporary_);
  write_at(fd_, header.data(), header.size(), 0, temporary_);
  write_at(fd_, mark.data(), mark.size(), header_bytes_, temporary_);
  if (::fsync(fd_) != 0) fail("flush", temporary_);
}

void PredictionFile::open(Count bytes, const std::string& mark) {
  fd_ = open_existing(temporary_);
  std::string seen(mark.size(), '\0');
  struct stat info {};
  const bool same = fd_ >= 0 && ::fstat(fd_, &info) == 0 && info.st_size == bytes &&
                    ::pread(fd_, seen.data(), seen.size(), header_bytes_) == std::ssize(seen) && seen == mark;
  if (same) return;
  throw IoError(fmt::format("--output: {} is not the file that the first rank made", temporary_),
                "All ranks write into it: give a path on a file system that all hosts share.");
}

PredictionFile::~PredictionFile() { remove(); }

void PredictionFile::remove() {
  if (fd_ < 0) return;
  ::close(std::exchange(fd_, -1));
  if (communicator_.rank() == 0) ::unlink(temporary_.c_str());
}

void PredictionFile::write_row(Count row, const float* values) {
  const std::size_t row_bytes = at(cols_) * sizeof(float);
  constexpr std::size_t kMaxPending = std::size_t{1} << 20;
  const Count next = pending_first_ + static_cast<Count>(pending_.size() / row_bytes);
  if (row != next || pending_.size() + row_bytes > kMaxPending) {
    flush();
    pending_first_ = row;
  }
  pending_.append(reinterpret_cast<const char*>(values), row_bytes);
}

void PredictionFile::flush() {
  if (pending_.empty()) return;
  const Count row_bytes = cols_ * static_cast<Count>(sizeof(float));
  write_at(fd_, pending_.data(), pending_.size(), header_bytes_ + pending_first_ * row_bytes, temporary_);
  pending_.clear();
}

void PredictionFile::close() {
  communicator_.together([&] {
    flush();
    if (::fsync(fd_) != 0) fail("flush", temporary_);
  });
  communicator_.together([&] {
    if (communicator_.rank() == 0 && ::rename(temporary_.c_str(), path_.c_str()) != 0)
      fail("rename", temporary_);
  });
  ::close(std::exchange(fd_, -1));
}

}  // namespace strata::train
