// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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

/// A bar as values.
struct BarState {
  std::uint64_t number = 0;  ///< of no other bar of this process
  std::string title, unit;
  std::int64_t done = 0, total = 0;
};

/// For programs that draw bars in their own way, in a notebook for instance: while one lives, new bars of
/// this process and announce() write nothing.
class BarWatch {
 public:
  BarWatch();
  ~BarWatch();
  BarWatch(const BarWatch&) = delete;
  BarWatch& operator=(const BarWatch&) = delete;

  std::vector<BarState> bars() const;  ///< that are there now, the oldest first; from any thread
};

/// Shows how far work has come, as progress_style() says: a bar with rate and time left, or every ten seconds
/// a line. `advance` is thread safe and cheap.
///
///     partition  [#########.............]  41 %  1.2M nodes/s  0:03 left
///     epoch 2/10 [####......]  41 %  loss 0.8121  valid 0.7340  82.1k seeds/s  0:03 left
class ProgressBar {
 public:
  /// What else there is to say; asked for by advance(), on its thread, when it draws. Left out where it
  /// would make the line longer than 79 characters.
  using Words = std::function<std::string()>;
  ProgressBar(std::string title, std::int64_t total, std::string unit, bool enabled = true, Words words = {});
  ~ProgressBar();  ///< clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void advance(std::int64_t amount = 1);

 private:
  void draw(std::int64_t done);
  std::string state(std::int64_t done, const std::string& words) const;

  friend class BarWatch;
  std::uint64_t number_ = 0;  ///< 0: not watched
  std::string title_, unit_;
  Words words_;
  std::int64_t total_;
  bool enabled_;
  ProgressStyle style_;
  std::int64_t start_ns_;
  std::atomic<std::int64_t> done_{0}, last_draw_ns_{0};
};

}  // namespace strata
