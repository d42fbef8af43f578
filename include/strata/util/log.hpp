// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/util/text.hpp"

namespace strata {

enum class LogLevel : std::uint8_t { trace, debug, info, warn, error, off };

template <>
inline constexpr auto enum_names<LogLevel> = std::to_array<EnumName<LogLevel>>({{LogLevel::trace, "trace"},
                                                                                {LogLevel::debug, "debug"},
                                                                                {LogLevel::info, "info"},
                                                                                {LogLevel::warn, "warn"},
                                                                                {LogLevel::error, "error"},
                                                                                {LogLevel::off, "off"}});

/// Sends the log to stderr: information as it is, warnings and errors with their level and `name` ("rank 3";
/// empty: none). Call once, early in main.
void init_log(const std::string& name, LogLevel level);

/// The same, but the terminal, stdout included, shows only messages that also reach the level `terminal`; log
/// files keep the others, too.
void init_log(const std::string& name, LogLevel level, LogLevel terminal);

// Output on the terminal, and the file that keeps it.

/// How work is shown while it lasts.
enum class ProgressStyle : std::uint8_t {
  automatic,  ///< bar on a terminal, else lines
  bar,
  lines,  ///< one line every ten seconds
  off,
};

template <>
inline constexpr auto enum_names<ProgressStyle> =
    std::to_array<EnumName<ProgressStyle>>({{ProgressStyle::automatic, "auto"},
                                            {ProgressStyle::bar, "bar"},
                                            {ProgressStyle::lines, "lines"},
                                            {ProgressStyle::off, "off"}});

/// Decides for this process how progress is shown. Call it early in main.
void choose_progress(ProgressStyle style);

/// Whether what this process prints on stderr reaches a terminal: its own, or that of the mpirun above it.
bool output_is_terminal();

/// How progress is shown: never `automatic`.
ProgressStyle progress_style();

/// Whether colors are wanted on stderr: on a terminal, or if CLICOLOR_FORCE is set, unless NO_COLOR is set.
bool wants_color();

/// The columns of the terminal of stdout, else of COLUMNS, else `otherwise`.
int terminal_columns(int otherwise);

/// Prints a text as it is on stdout, and appends it to the log files. Does nothing if the log level leaves
/// out information.
void print(std::string_view text);

/// Appends every line of the log, and what print() writes, to a file until it is destroyed. An owner.
class LogFile {
 public:
  explicit LogFile(const std::string& path);  ///< throws IoError
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  class Sink;

 private:
  std::shared_ptr<Sink> sink_;
};

bool shows_bars();  ///< whether progress_style() is bar

/// Prints on stderr that a phase of long work begins, unless progress is off: as a line, or where bars are
/// drawn, in their place until there is one.
///
///     reading ogb:arxiv ...
void announce(const std::string& phase);

/// Announces phases no longer than it lives.
class Announcements {
 public:
  Announcements() = default;
  ~Announcements();  ///< the last one is over
  Announcements(const Announcements&) = delete;
  Announcements& operator=(const Announcements&) = delete;
};

/// Clears the line of a bar or a phase that this process has drawn, before something else is written there.
void clear_bar();

/// A bar as values.
struct BarState {
  std::uint64_t number = 0;  ///< of no other bar of this process
  std::string title, unit;
  std::int64_t done = 0, total = 0;
  std::string words =
      {};  ///< the latest of BarNotes, with the time that is left where the bar cannot know it
};

/// Passes bars to programs that draw them in their own way, for example in a notebook: while one lives, new
/// bars of this process and announce() write nothing.
class BarWatch {
 public:
  BarWatch();
  ~BarWatch();
  BarWatch(const BarWatch&) = delete;
  BarWatch& operator=(const BarWatch&) = delete;

  std::vector<BarState> bars() const;  ///< that are there now, the oldest first; from any thread
};

/// The parts of a bar's line. Where the line would be longer than 79 characters, the bar shrinks, then goes,
/// and at last the words go.
struct BarText {
  std::string title, words = {};
  double share = 0;  ///< of the work that is done
  std::string rate, left;

  std::string line() const;
};

/// What a bar asks for when it draws, on the thread of advance(). What is not given is left out.
struct BarNotes {
  std::function<std::string()> words = {};  ///< what else there is to say
  /// Seconds until the end of the longer work that contains the bar's work, from what is done of that;
  /// without it the line shows when the bar's work ends.
  std::function<double(std::int64_t done)> seconds_left = {};
};

/// Shows how far work has come, in the style of progress_style(): a bar with rate and time left, or one line
/// every ten seconds. `advance` is thread safe and cheap.
///
///     partition  [#########.............]  41 %  1.2M nodes/s  0:03 left
///     epoch 2/10 [####......]  41 %  loss 0.8121  best 0.7340  82.1k seeds/s  1:03 left
class ProgressBar {
 public:
  ProgressBar(std::string title, std::int64_t total, std::string unit, bool enabled = true,
              BarNotes notes = {});
  ~ProgressBar();  ///< clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void advance(std::int64_t amount = 1);

 private:
  void draw(std::int64_t done);
  BarText text(std::int64_t done) const;

  friend class BarWatch;
  std::uint64_t number_ = 0;  ///< 0: not watched
  std::string title_, unit_;
  BarNotes notes_;
  std::int64_t total_;
  bool enabled_;
  ProgressStyle style_;
  std::int64_t start_ns_;
  std::atomic<std::int64_t> done_{0}, last_draw_ns_{0};
};

}  // namespace strata
