#include "strata/util/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "strata/util/error.hpp"

namespace strata {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path, int code) {
  throw IoError(fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(code)),
                code == ENOSPC ? "Free space on that disk, or write elsewhere."
                               : "Check that the path is right and its permissions allow this.");
}

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
      contents.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void sync() {
    if (::fsync(fd_) != 0) fail("flush", path_, errno);
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

}  // namespace

void write_file_atomically(const std::filesystem::path& path, std::string_view contents) {
  const std::filesystem::path temporary = path.string() + fmt::format(".tmp{}", ::getpid());
  try {
    File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(contents);
    file.sync();
    file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("rename to", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_to_disk(path.has_parent_path() ? path.parent_path() : ".");
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
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

}  // namespace strata
