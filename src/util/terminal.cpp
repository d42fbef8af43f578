// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"

namespace strata {
namespace {

std::atomic<ProgressStyle>& chosen_style() {
  static std::atomic<ProgressStyle> style{ProgressStyle::automatic};
  return style;
}

/// Whether the program that started this one is an mpirun whose stderr, to which it passes this one's, is a
/// terminal.
bool mpirun_has_terminal() {
  if (std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return false;
  const std::filesystem::path parent = fmt::format("/proc/{}", ::getppid());
  std::error_code failed;
  const std::string program = std::filesystem::read_symlink(parent / "exe", failed).filename().string();
  if (program != "orterun" && program != "mpirun" && program != "prterun") return false;
  const std::string target = std::filesystem::read_symlink(parent / "fd/2", failed).string();
  return target.starts_with("/dev/pts/") || target.starts_with("/dev/tty") || target == "/dev/console";
}

}  // namespace

void choose_progress(ProgressStyle style) { chosen_style() = style; }

bool output_is_terminal() {
  static const bool is_terminal = ::isatty(STDERR_FILENO) == 1 || mpirun_has_terminal();
  return is_terminal;
}

ProgressStyle progress_style() {
  const ProgressStyle style = chosen_style();
  if (style != ProgressStyle::automatic) return style;
  return output_is_terminal() ? ProgressStyle::bar : ProgressStyle::lines;
}

bool wants_color() {
  const auto is_set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  return !is_set("NO_COLOR") && (is_set("CLICOLOR_FORCE") || output_is_terminal());
}

int terminal_columns(int otherwise) {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* text = std::getenv("COLUMNS");
  int columns = 0;
  if (text != nullptr && std::from_chars(text, text + std::strlen(text), columns).ec == std::errc() &&
      columns > 0)
    return columns;
  return otherwise;
}

class LogFile::Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(const std::string& path)
      : base_sink(std::make_unique<spdlog::pattern_formatter>(spdlog::default_logger()->name().empty()
                                                                  ? "%Y-%m-%dT%H:%M:%S.%e %-5l %v"
                                                                  : "%Y-%m-%dT%H:%M:%S.%e %-5l %n: %v")),
        path_(path),
        file_(std::fopen(path.c_str(), "ae")) {
    if (file_ == nullptr) throw IoError(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  }
  ~Sink() override { std::fclose(file_); }

  void append(std::string_view text) {
    const std::lock_guard lock(mutex_);
    write(text);
    flush_();
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write({line.data(), line.size()});
  }
  void flush_() override { warn_unless(std::fflush(file_) == 0); }

 private:
  void write(std::string_view text) {
    warn_unless(std::fwrite(text.data(), 1, text.size(), file_) == text.size());
  }
  /// Warns once, and not through the log, which waits for this sink.
  void warn_unless(bool written) {
    if (written || std::exchange(has_warned_, true)) return;
    clear_bar();
    fmt::print(stderr, "warning: {} misses lines: {}. The run goes on\n", path_, std::strerror(errno));
  }

  std::string path_;
  std::FILE* file_;
  bool has_warned_ = false;
};

LogFile::LogFile(const std::string& path) : sink_(std::make_shared<Sink>(path)) {
  spdlog::default_logger()->sinks().push_back(sink_);
}

LogFile::~LogFile() { std::erase(spdlog::default_logger()->sinks(), sink_); }

void print(std::string_view text) {
  const auto logger = spdlog::default_logger();
  if (!logger->should_log(spdlog::level::info)) return;
  // The first sink is the terminal's.
  if (logger->sinks().empty() || logger->sinks().front()->should_log(spdlog::level::info)) {
    clear_bar();
    const bool failed_before = std::ferror(stdout) != 0;
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (std::fflush(stdout) != 0 && !failed_before)
      fmt::print(stderr, "warning: cannot write to stdout: {}\n", std::strerror(errno));
  }
  for (const auto& sink : logger->sinks())
    if (auto* file = dynamic_cast<LogFile::Sink*>(sink.get())) file->append(text);
}

}  // namespace strata
