// SPDX-License-Identifier: Apache-2.0
#include "memory/shared_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "strata/util/error.hpp"
#include "strata/util/random.hpp"

namespace strata::tensor {
namespace {

constexpr std::string_view kPrefix = "strata-";

bool names_are_wanted() {
  const char* requested = std::getenv("STRATA_SHARED_MEMORY");
  return requested != nullptr && std::string_view(requested) == "named";
}

constexpr std::size_t kRandomDigits = 16;

/// Whether SharedName::create() makes such names: "strata-", a process, "-" and random hexadecimal digits.
bool is_shared_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const std::size_t dash = name.find('-');
  if (dash == 0 || dash == name.npos || name.size() - dash - 1 != kRandomDigits) return false;
  return name.find_first_not_of("0123456789") == dash &&
         name.find_first_not_of("0123456789abcdef", dash + 1) == name.npos;
}

/// Takes the lock that the maker of a file holds, in any container, while the file has a name.
bool lock(const FileDescriptor& file) { return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0; }

bool is_own_and_empty(const FileDescriptor& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
         status.st_size == 0;
}

bool has_name(const FileDescriptor& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 && status.st_nlink > 0;
}

/// Removes the files whose makers were killed before they could.
void remove_abandoned() {
  std::error_code failed;  // files that cannot be opened are not ours
  for (const auto& entry : std::filesystem::directory_iterator(kSharedFolder, failed)) {
    if (!is_shared_name(entry.path().filename().string())) continue;
    const FileDescriptor file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.is_open() && is_own_and_empty(file) && lock(file)) ::unlink(entry.path().c_str());
  }
}

/// The name of a file in kSharedFolder, from its creation until all ranks have opened it.
class SharedName {
 public:
  SharedName() : text_{} {}
  ~SharedName() {
    if (created_) ::shm_unlink(text_.data());
  }
  SharedName(const SharedName&) = delete;
  SharedName& operator=(const SharedName&) = delete;

  FileDescriptor create() {
    constexpr int kTries = 100;  // another run may think that a file is abandoned before it is locked
    for (int i = 0; i < kTries; ++i) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
      const std::uint64_t unique =
          mix64(static_cast<std::uint64_t>(now) ^ reinterpret_cast<std::uintptr_t>(this));
      fmt::format_to_n(text_.data(), text_.size() - 1, "/{}{}-{:0{}x}", kPrefix, ::getpid(), unique,
                       kRandomDigits);
      FileDescriptor file(::shm_open(text_.data(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
      if (!file.is_open()) fail("create");
      if (lock(file) && has_name(file)) {
        created_ = true;
        return file;
      }
    }
    throw IoError(fmt::format("files in {} vanish while they are made", kSharedFolder));
  }
  FileDescriptor open() const {
    FileDescriptor file(::shm_open(text_.data(), O_RDWR | O_CLOEXEC, 0600));
    if (!file.is_open()) fail("open");
    return file;
  }
  void share(const comm::Machine& machine) {
    machine.communicator().broadcast(text_.data(), static_cast<Count>(text_.size()), 0);
  }

 private:
  [[noreturn]] void fail(const char* action) const {
    throw IoError(fmt::format("cannot {} the shared memory {}{}: {}", action, kSharedFolder, text_.data(),
                              std::generic_category().message(errno)),
                  "Check that /dev/shm is mounted and writable.");
  }

  std::array<char, 64> text_;
  bool created_ = false;
};

/// The first rank's file as the others see it.
struct SeenFile {
  std::array<char, 64> path{};  // empty: there is none
  std::uint64_t device = 0, inode = 0;

  bool is(const FileDescriptor& file) const {
    struct stat status {};
    return ::fstat(file.get(), &status) == 0 && status.st_dev == device && status.st_ino == inode;
  }
};

SeenFile describe(const FileDescriptor& file) {
  SeenFile seen;
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) return seen;
  fmt::format_to_n(seen.path.data(), seen.path.size() - 1, "/proc/{}/fd/{}", ::getpid(), file.get());
  seen.device = status.st_dev;
  seen.inode = status.st_ino;
  return seen;
}

/// Opens the seen file; in another PID namespace its path may lead to another file, or to none.
FileDescriptor open_seen(const SeenFile& seen) {
  if (seen.path[0] == 0) return FileDescriptor();
  FileDescriptor file(::open(seen.path.data(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return file.is_open() && seen.is(file) ? std::move(file) : FileDescriptor();
}

/// Opens a nameless file; it is open on no rank if one cannot open it.
FileDescriptor open_nameless(const comm::Machine& machine) {
  const bool first = machine.rank() == 0;
  FileDescriptor file;
  SeenFile seen;
  if (first && !names_are_wanted()) {
    file = FileDescriptor(::memfd_create("strata", MFD_CLOEXEC));
    seen = describe(file);
  }
  machine.communicator().broadcast(&seen, sizeof seen, 0);
  if (!first) file = open_seen(seen);
  std::int64_t opened = file.is_open() ? 1 : 0;
  machine.communicator().all_reduce(std::span(&opened, 1), comm::Communicator::Op::min);
  return opened == 1 ? std::move(file) : FileDescriptor();
}

FileDescriptor open_named(const comm::Machine& machine) {
  const bool first = machine.rank() == 0;
  FileDescriptor file;
  SharedName name;  // its end unlinks the file, whatever happened
  machine.together([&] {
    if (!first) return;
    remove_abandoned();
    file = name.create();
  });
  name.share(machine);
  machine.together([&] {
    if (!first) file = name.open();
  });
  return file;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

SharedFile open_shared_file(const comm::Machine& machine) {
  FileDescriptor nameless = open_nameless(machine);
  if (nameless.is_open()) return {.file = std::move(nameless), .in_folder = false};
  return {.file = open_named(machine), .in_folder = true};
}

}  // namespace strata::tensor
