// SPDX-License-Identifier: Apache-2.0
#include "strata/util/report_page.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "strata-report";
constexpr std::chrono::seconds kPatience{300};  // a file system that hangs must not keep the caller

/// PREFIX/bin/strata-report for a program in PREFIX/bin or PREFIX/libexec; else the one on the PATH.
std::string program() {
  std::error_code failed;
  const fs::path self = fs::read_symlink("/proc/self/exe", failed);
  const fs::path beside = self.parent_path().parent_path() / "bin" / kProgram;
  return !failed && ::access(beside.c_str(), X_OK) == 0 ? beside.string() : kProgram;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

/// Starts a program whose output goes into a file, without the signal mask of this one. Returns its process,
/// or -1 with errno.
pid_t start(const std::vector<std::string>& words, std::FILE* output) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&actions);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(output), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(output), STDERR_FILENO);
  pid_t process = -1;
  const int failed = posix_spawnp(&process, argv.front(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  errno = failed;
  return failed == 0 ? process : -1;
}

/// The exit code, or -1 for a process that was killed, by this one if it takes too long, and where the system
/// does not report it.
int exit_code_of(pid_t process) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(process, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
    if (std::chrono::steady_clock::now() > deadline) ::kill(process, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return ended == process && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string text_of(std::FILE* file) {
  std::string text(4096, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::string draw_report(const std::vector<std::string>& sources, const fs::path& page) {
  std::vector<std::string> words{program(), "--output", page.string(), "--"};
  words.insert(words.end(), sources.begin(), sources.end());
  const File output(std::tmpfile());
  const pid_t process = output ? start(words, output.get()) : -1;
  if (process < 0) return fmt::format("cannot start {}: {}", words.front(), std::strerror(errno));
  if (exit_code_of(process) == 0) return "";
  const std::string said = text_of(output.get());
  return said.empty() ? fmt::format("{} failed", words.front()) : said;
}

}  // namespace strata
