// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "strata/util/terminal.hpp"

namespace strata {

bool shows_bars();  ///< whether progress_style() is bar

/// Says on stderr, in one line, that a phase of long work begins; nothing where bars say so, or progress is
/// off.
///
///     reading ogb:arxiv ...
void announce(const std::string& phase);

/// Clears the line of a bar that this process has drawn, before something else is written there.
void clear_bar();

/// Shows how far work has come, as progress_style() says: a bar with rate and time left, or every ten seconds
/// a line. `advance` is thread safe and cheap.
///
///     partition  [#########.............]  41 %  1.2M nodes/s  0:03 left
class ProgressBar {
 public:
  ProgressBar(std::string title, std::int64_t total, std::string unit, bool enabled = true);
  ~ProgressBar();  ///< clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void advance(std::int64_t amount = 1);

 private:
  void draw(std::int64_t done);
  std::string state(std::int64_t done) const;

  std::string title_, unit_;
  std::int64_t total_;
  bool enabled_;
  ProgressStyle style_;
  std::int64_t start_ns_;
  std::atomic<std::int64_t> done_{0}, last_draw_ns_{0};
};

}  // namespace strata
