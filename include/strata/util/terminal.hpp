// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "strata/util/enum_names.hpp"

/// Output on the terminal, and the file that keeps it.
namespace strata {

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

}  // namespace strata
