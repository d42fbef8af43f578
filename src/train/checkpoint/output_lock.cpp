// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/output_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"
#include "strata/util/types.hpp"

namespace strata::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using nlohmann::json;

constexpr Milliseconds kPoll{100};

/// The owner of a lock.
struct Owner {
  std::string host, boot, pid_namespace;
  std::int64_t pid = 0;
  std::string started;  ///< in ticks since the boot
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Owner, host, boot, pid_namespace, pid, started)

std::string first_line(const char* path) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const IoError&) {
    return {};
  }
  return text.substr(0, text.find('\n'));
}

/// When a process began; empty if it has ended.
std::string start_of(std::int64_t pid) {
  const std::string stat = first_line(fmt::format("/proc/{}/stat", pid).c_str());
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  // fields of /proc/PID/stat, see proc(5), counted from 1; the name is the second
  constexpr int kState = 3, kStart = 22;
  std::size_t begin = name_end + 2;
  if (stat[begin] == 'Z' || stat[begin] == 'X') return {};
  for (int field = kState; field < kStart; ++field) begin = stat.find(' ', begin) + 1;
  return stat.substr(begin, stat.find(' ', begin) - begin);
}

Owner this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::error_code code;
  return {.host = host.data(),
          .boot = first_line("/proc/sys/kernel/random/boot_id"),
          .pid_namespace = fs::read_symlink("/proc/self/ns/pid", code).string(),
          .pid = ::getpid(),
          .started = start_of(::getpid())};
}

std::string random_token() {
  std::random_device random;
  return hex64((std::uint64_t{random()} << 32) | random());
}

[[noreturn]] void fail(const char* what, const fs::path& path, int code) {
  throw IoError(fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(code)),
                "Give --output a folder that this user may write.");
}

/// A lock as it was found.
struct Seen {
  std::string text;
  std::optional<Owner> owner;  ///< none: not readable, or not written yet
  timespec modified{};

  bool same_time(const Seen& other) const {
    return modified.tv_sec == other.modified.tv_sec && modified.tv_nsec == other.modified.tv_nsec;
  }
};

/// Looks at a lock. The file is opened anew each time, which makes an NFS client ask its server.
std::optional<Seen> look_at(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 && (errno == ENOENT || errno == ESTALE)) return {};
  if (fd < 0) fail("open", path, errno);
  struct stat info {};
  std::array<char, 4096> buffer{};
  const ssize_t size = ::fstat(fd, &info) == 0 ? ::read(fd, buffer.data(), buffer.size()) : -1;
  const int code = errno;
  ::close(fd);
  if (size < 0 && code == ESTALE) return {};
  if (size < 0) fail("read", path, code);
  Seen seen{.text = std::string(buffer.data(), at(size)), .owner = {}, .modified = info.st_mtim};
  try {
    seen.owner = json::parse(seen.text).get<Owner>();
  } catch (const json::exception&) {
  }
  return seen;
}

}  // namespace

struct OutputLock::State {
  fs::path path, claim;
  Options options;
  Owner self = this_process();
  std::string text;
  timespec server_time{};  // when this process claimed, by the clock that stamps the files
  std::mutex mutex;
  std::condition_variable ended;
  bool ending = false;
  std::thread heart;

  State(const fs::path& folder, const Options& o)
      : path(folder / kFile), claim(path.string() + ".new"), options(o) {
    json named = self;
    named["token"] = random_token();
    text = named.dump() + "\n";
  }

  void acquire() {
    do {
      await_claim();
      try {
        take_lock();
      } catch (...) {
        ::unlink(claim.c_str());
        throw;
      }
    } while (!is_ours());  // only where a claim that was given up for dead was not
  }

  /// Turns the claim into the lock, unless the lock has an owner.
  void take_lock() {
    for (std::optional<Seen> other = look_at(path); other;) {
      if (is_alive(*other)) refuse(*other);
      const std::optional<Seen> now = look_at(path);
      if (now && now->text == other->text) break;
      other = now;
    }
    if (::rename(claim.c_str(), path.c_str()) != 0 && errno != ENOENT) fail("rename", claim, errno);
  }

  void await_claim() {
    std::string before;
    auto since = Clock::now();
    while (!create_claim()) {
      const std::optional<Seen> other = look_at(claim);
      if (!other) continue;
      if (other->text != before) {
        before = other->text;
        since = Clock::now();
      }
      if (is_visible(*other) ? !runs(*other->owner) : Clock::now() - since > 2 * options.patience)
        ::unlink(claim.c_str());
      else
        std::this_thread::sleep_for(kPoll);
    }
  }

  /// False if there is a claim already.
  bool create_claim() {
    const int fd = ::open(claim.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 && errno == EEXIST) return false;
    if (fd < 0) fail("create", claim, errno);
    struct stat info {};
    const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                         ::fsync(fd) == 0 && ::fstat(fd, &info) == 0;
    const int code = errno;
    ::close(fd);
    if (!written) {
      ::unlink(claim.c_str());
      fail("write", claim, code);
    }
    server_time = info.st_mtim;
    return true;
  }

  /// Whether the owner, if it runs, is a process that can be seen from here.
  bool is_visible(const Seen& other) const {
    return other.owner && !self.boot.empty() && !other.owner->started.empty() &&
           other.owner->boot == self.boot && other.owner->pid_namespace == self.pid_namespace;
  }
  static bool runs(const Owner& owner) { return start_of(owner.pid) == owner.started; }

  bool is_alive(const Seen& other) const {
    return is_visible(other) ? !ends(*other.owner) : is_renewed(other);
  }

  bool ends(const Owner& owner) const {
    const auto deadline = Clock::now() + options.ending;
    while (runs(owner)) {
      if (Clock::now() > deadline) return false;
      std::this_thread::sleep_for(kPoll);
    }
    return true;
  }

  /// Waits until its owner renews the lock, or was silent for too long.
  bool is_renewed(const Seen& other) const {
    if (std::chrono::seconds(server_time.tv_sec - other.modified.tv_sec) > options.patience) return false;
    const auto deadline = Clock::now() + options.patience;
    spdlog::info("{} is of {}: waiting up to {} s to see whether it still runs", path.string(),
                 name_of(other), std::chrono::duration_cast<std::chrono::seconds>(options.patience).count());
    while (Clock::now() < deadline) {
      const std::optional<Seen> now = look_at(path);
      if (!now || now->text != other.text) return false;  // it is another lock by now, so look again
      if (!now->same_time(other)) return true;
      std::this_thread::sleep_for(kPoll);
    }
    return false;
  }

  static std::string name_of(const Seen& other) {
    return other.owner ? fmt::format("process {} on host {}", other.owner->pid, other.owner->host)
                       : std::string("an unknown owner");
  }

  [[noreturn]] void refuse(const Seen& other) const {
    throw InputError(fmt::format("--output {}: {} trains there (its lock is {})", path.parent_path().string(),
                                 name_of(other), path.string()),
                     "Wait for that run or end it, or give this one a folder of its own.");
  }

  bool is_ours() const {
    const std::optional<Seen> now = look_at(path);
    return now && now->text == text;
  }

  void beat() {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, options.heartbeat, [this] { return ending; })) {
      lock.unlock();
      renew();
      lock.lock();
    }
  }

  void renew() const {
    try {
      if (is_ours()) ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    } catch (const IoError&) {  // a server that is away for a moment
    }
  }

  void release() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    ended.notify_all();
    heart.join();
    if (is_ours()) ::unlink(path.c_str());
  }
};

OutputLock::OutputLock(const fs::path& folder, const Options& options) {
  fs::create_directories(folder);
  state_ = std::make_unique<State>(folder, options);
  state_->acquire();
  state_->heart = std::thread([state = state_.get()] { state->beat(); });
}

OutputLock::~OutputLock() {
  try {
    state_->release();
  } catch (const std::exception&) {  // the folder cannot be read: the next owner sees that this one is gone
  }
}

void OutputLock::require() const {
  if (state_->is_ours()) return;
  throw Error(
      fmt::format("{} is no longer this run's: another run took the folder over", state_->path.string()),
      "This process was stopped or cut off for long. The other run goes on; this one writes nothing more.");
}

}  // namespace strata::train
