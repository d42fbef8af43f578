// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

namespace strata {

bool output_is_terminal();  ///< whether stderr is a terminal

/// Says on stderr, in one line, that a phase of long work begins; nothing on a terminal, where bars say so.
///
///     reading ogb:arxiv ...
void announce(const std::string& phase);

/// Shows a bar with rate and time left on a terminal, and nothing elsewhere. `advance` is thread safe and
/// cheap.
///
///     partition  [#########.............]  41 %  1.2 M nodes/s  0:03 left
class ProgressBar {
 public:
  ProgressBar(std::string title, std::int64_t total, std::string unit, bool enabled = output_is_terminal());
  ~ProgressBar();  ///< clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void advance(std::int64_t amount = 1);

 private:
  void draw(std::int64_t done);

  std::string title_, unit_;
  std::int64_t total_;
  bool enabled_;
  std::int64_t start_ns_;
  std::atomic<std::int64_t> done_{0}, last_draw_ns_{0};
};

}  // namespace strata
