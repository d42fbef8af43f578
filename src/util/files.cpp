// SPDX-License-Identifier: Apache-2.0
#include "strata/util/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "strata/util/error.hpp"
#include "strata/util/types.hpp"

namespace strata {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path, int code) {
  throw IoError(fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(code)),
                file_remedy(code, "Check that the path is right and its permissions allow this."));
}

constexpr const char* kTemporary = ".tmp";  // followed by the process id

class File {
 public:
  File(const std::filesystem::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail("open", path, errno);
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(std::string_view contents) {
    while (!contents.empty()) {
      const ssize_t written = ::write(fd_, contents.data(), contents.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_, errno);
      contents.remove_prefix(at(written));
    }
  }
  void sync() {
    if (::fsync(fd_) != 0) fail("flush", path_, errno);
  }
  /// Compares the contents of a flushed file. Its cached pages are dropped first, so that the disk is read.
  void expect(std::string_view contents) {
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    std::string piece(std::size_t{1} << 20, '\0');
    std::size_t done = 0;
    while (true) {
      const ssize_t got = ::pread(fd_, piece.data(), piece.size(), static_cast<off_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("read back", path_, errno);
      if (got == 0) break;
      const std::string_view read(piece.data(), at(got));
      if (contents.substr(std::min(done, contents.size()), read.size()) != read) break;
      done += read.size();
    }
    if (done == contents.size()) return;
    throw IoError(fmt::format("{}: the disk does not give back what was written, from about byte {} on",
                              path_.string(), done),
                  "The disk or the network to it is faulty: write elsewhere. The older file is untouched.");
  }
  void close() {
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail("close", path_, errno);
  }

 private:
  std::filesystem::path path_;
  int fd_;
};

std::filesystem::path temporary_of(const std::filesystem::path& path) {
  return path.string() + fmt::format("{}{}", kTemporary, ::getpid());
}

/// Gives the file at `path`, if there is one, the second name `other`. On file systems without links it loses
/// its first name.
void keep_as(const std::filesystem::path& path, const std::filesystem::path& other) {
  const std::filesystem::path temporary = temporary_of(other);
  ::unlink(temporary.c_str());
  const bool linked = ::link(path.c_str(), temporary.c_str()) == 0;
  if (!linked && errno == ENOENT) return;
  if (::rename((linked ? temporary : path).c_str(), other.c_str()) != 0) fail("rename to", other, errno);
}

}  // namespace

std::string file_remedy(int code, const std::string& otherwise) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "Free space on that disk, or write elsewhere.";
    case EFBIG:
      return "The file system or `ulimit -f` allows no larger file: raise the limit, or write elsewhere.";
    case EMFILE:
      return "The process may open no more files: `ulimit -n 65536` before the program (or mpirun) starts, "
             "or nofile in /etc/security/limits.conf.";
    case ENFILE:
      return "The host has no more open files: end other programs, or raise fs.file-max.";
    default:
      return otherwise;
  }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view contents,
                           const WriteOptions& options) {
  const std::filesystem::path temporary = temporary_of(path);
  ::unlink(temporary.c_str());  // it may be of a dead process with the same id, or somebody's link
  try {
    File file(temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
    file.write(contents);
    file.sync();
    if (options.read_back) file.expect(contents);
    file.close();
    if (!options.keep_old_as.empty()) keep_as(path, options.keep_old_as);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("rename to", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_to_disk(folder_of(path));
}

void remove_temporaries_of(const std::filesystem::path& path) {
  const std::string prefix = path.filename().string() + kTemporary;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(path), code)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with(prefix) && name.size() > prefix.size() &&
                      name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
    if (ours) ::unlink(entry.path().c_str());
  }
}

std::filesystem::path make_temporary_beside(const std::filesystem::path& path) {
  std::random_device random;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const std::filesystem::path name = fmt::format("{}.tmp-{:08x}", path.string(), random());
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd >= 0) {
      ::close(fd);
      return name;
    }
    if (errno != EEXIST) break;
  }
  fail("make a file beside", path, errno);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  const auto name = path.has_filename() ? path : path.parent_path();
  return name.has_parent_path() ? name.parent_path() : ".";
}

bool can_write_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return false;
  try {
    return std::filesystem::remove(make_temporary_beside(path));
  } catch (const Error&) {
    return false;
  }
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("open", path, errno);
  std::ostringstream contents;
  contents << file.rdbuf();
  if (file.bad() || std::filesystem::is_directory(path)) fail("read", path, errno != 0 ? errno : EISDIR);
  return std::move(contents).str();
}

void sync_to_disk(const std::filesystem::path& path) {
  File file(path, O_RDONLY);
  file.sync();
}

std::int64_t free_disk_bytes(const std::filesystem::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) fail("look at", folder, errno);
  if (info.f_blocks == 0) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

}  // namespace strata
