#include "prediction_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "strata/graph/npy.hpp"
#include "strata/util/error.hpp"

namespace strata::train {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw IoError(fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)),
                errno == ENOSPC ? "Free space on that disk, or give --predictions another place." : "");
}

void write_at(int fd, const char* data, std::size_t bytes, Count offset, const std::string& path) {
  while (bytes > 0) {
    const ssize_t written = ::pwrite(fd, data, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path);
    data += written;
    offset += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

}  // namespace

PredictionFile::PredictionFile(const std::string& path, Count rows, Count cols,
                               const comm::Communicator& communicator)
    : path_(path), temporary_(path + ".tmp"), communicator_(communicator), cols_(cols) {
  const std::string header = graph::npy_header(DType::f32, {rows, cols});
  header_bytes_ = static_cast<Count>(header.size());
  if (communicator.rank() == 0) {
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) fail("create", temporary_);
    write_at(fd_, header.data(), header.size(), 0, temporary_);
    if (::ftruncate(fd_, header_bytes_ + rows * cols * static_cast<Count>(sizeof(float))) != 0)
      fail("extend", temporary_);
  }
  communicator.barrier();
  if (fd_ < 0) fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd_ < 0) fail("open", temporary_);
}

PredictionFile::~PredictionFile() {
  if (fd_ >= 0) ::close(fd_);
}

void PredictionFile::write_row(Count row, const float* values) {
  const std::size_t row_bytes = static_cast<std::size_t>(cols_) * sizeof(float);
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
  flush();
  if (::fsync(fd_) != 0) fail("flush", temporary_);
  ::close(std::exchange(fd_, -1));
  communicator_.barrier();
  if (communicator_.rank() == 0 && ::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail("rename", temporary_);
  communicator_.barrier();
}

void PredictionFile::discard() {
  pending_.clear();
  ::close(std::exchange(fd_, -1));
  communicator_.barrier();
  if (communicator_.rank() == 0) ::unlink(temporary_.c_str());
}

}  // namespace strata::train
