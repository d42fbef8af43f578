// SPDX-License-Identifier: Apache-2.0
#include "output/leftovers.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "strata/graph/manifest_file.hpp"
#include "strata/util/files.hpp"

namespace strata::partition {
namespace fs = std::filesystem;
namespace {

/// The longest time that a directory has no mark: a build makes its mark just after its directory.
constexpr std::chrono::seconds kLongestWithoutMark{60};

/// The mark of a directory stands beside it, so that the directory can be renamed first. A folder that a
/// build sets aside has the mark of its directory.
fs::path mark_of(const fs::path& directory) {
  std::string name = directory.string();
  if (name.ends_with(graph::kSetAsideSuffix)) name.resize(name.size() - std::strlen(graph::kSetAsideSuffix));
  return name + ".lock";
}

/// The kernel that locks belong to, in any container, and the name that a host keeps when it boots
/// again.
struct Host {
  std::string boot, name;

  static Host here() {
    Host host;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> host.boot;
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    host.name = name;
    return host;
  }
};

/// Whether a mark was made on this host. One that names none is of an older build, or just made.
bool is_of_this_host(const fs::path& file) {
  const Host here = Host::here();
  Host made;
  std::ifstream(file) >> made.boot >> made.name;
  return made.boot.empty() || made.boot == here.boot || made.name == here.name;
}

enum class State { abandoned, in_use, unknown };

State state_of_mark(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return State::unknown;
  const bool taken = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  const int error = errno;
  ::close(descriptor);
  if (taken) return is_of_this_host(file) ? State::abandoned : State::unknown;
  return error == EWOULDBLOCK ? State::in_use : State::unknown;
}

State state_of(const fs::path& directory) {
  std::error_code code;
  if (fs::exists(mark_of(directory), code)) return state_of_mark(mark_of(directory));
  const auto changed = fs::last_write_time(directory, code);
  if (code) return State::unknown;
  return fs::file_time_type::clock::now() - changed > kLongestWithoutMark ? State::abandoned : State::unknown;
}

bool remove_directory(const fs::path& directory) {
  std::error_code code;
  // This goes first, so that a partly deleted directory is not taken for parts that were set aside.
  fs::remove(directory / graph::kManifestFile, code);
  fs::remove_all(directory, code);
  if (code) return false;
  fs::remove(mark_of(directory), code);
  return true;
}

void treat(const fs::path& directory) {
  const State state = state_of(directory);
  if (state == State::abandoned && remove_directory(directory))
    spdlog::warn("{}: removed; a build that was killed left it", directory.string());
  else if (state == State::in_use)
    spdlog::warn("{}: another build of this name is running", directory.string());
  else
    spdlog::warn("{} is left from a build that was killed, or still runs; if none runs, remove it",
                 directory.string());
}

}  // namespace

BuildMark::BuildMark(const fs::path& directory) : file_(mark_of(directory)) {
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) return;
  // Where there are no locks, the next build reports that it does not know.
  (void)::flock(descriptor_, LOCK_EX | LOCK_NB);
  const Host here = Host::here();
  const std::string text = here.boot + " " + here.name + "\n";
  // On a full disk the build itself fails soon.
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, text.data(), text.size());
}

BuildMark::~BuildMark() {
  if (descriptor_ < 0) return;
  ::unlink(file_.c_str());
  ::close(descriptor_);
}

void remove_leftovers(const fs::path& output) {
  const std::string prefix = "." + output.filename().string() + graph::kStagingInfix;
  std::error_code code;
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(output), code))
    if (entry.path().filename().string().starts_with(prefix) && entry.is_directory(code))
      found.push_back(entry.path());
  for (const fs::path& directory : found) treat(directory);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(output), code)) {
    const std::string name = entry.path().filename().string();
    const bool is_mark = name.starts_with(prefix) && entry.path().extension() == ".lock";
    if (is_mark && state_of_mark(entry.path()) == State::abandoned) fs::remove(entry.path(), code);
  }
}

}  // namespace strata::partition
