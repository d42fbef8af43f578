// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>

#include "strata/util/log.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string format_rate(double rate) {
  if (rate >= 1e6) return fmt::format("{:.1f}M ", rate / 1e6);
  if (rate >= 1e3) return fmt::format("{:.1f}k ", rate / 1e3);
  return fmt::format("{:.1f} ", rate);
}

constexpr const char* kClear = "\r\x1b[K";

constexpr std::size_t kColumns = 79;

/// The phase that stands on the terminal's line while there is no bar; empty: none.
class PhaseLine {
 public:
  void set(const std::string& phase) {
    const std::lock_guard lock(mutex_);
    text_ = phase.empty() ? phase : cut(printable(phase) + " ...");
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

  static PhaseLine& instance() {
    static PhaseLine line;
    return line;
  }

 private:
  /// Cuts a text to the width of the terminal, between whole characters.
  static std::string cut(std::string text) {
    if (text.size() <= kColumns) return text;
    text.resize(kColumns - 4);
    if (const auto broken = first_invalid_utf8(text)) text.resize(*broken);
    return text + " ...";
  }

  std::mutex mutex_;
  std::string text_;
};

/// Whether the last that was written on the terminal's line is a bar or a phase.
std::atomic<bool>& bar_is_there() {
  static std::atomic<bool> is_there{false};
  return is_there;
}

void draw_phase() {
  const std::string text = PhaseLine::instance().text();
  if (text.empty()) return;
  std::fputs(fmt::format("\r{}\x1b[K", text).c_str(), stderr);
  bar_is_there() = true;
}

/// The bars that somebody watches.
struct Watched {
  std::mutex mutex;
  int watches = 0;
  std::uint64_t last_number = 0;
  std::vector<ProgressBar*> bars;
  std::map<std::uint64_t, std::string> words;  ///< by the bar's number

  bool any() {
    const std::lock_guard lock(mutex);
    return watches > 0;
  }

  static Watched& instance() {
    static Watched watched;
    return watched;
  }
};

}  // namespace

BarWatch::BarWatch() {
  Watched& watched = Watched::instance();
  const std::lock_guard lock(watched.mutex);
  ++watched.watches;
}

BarWatch::~BarWatch() {
  Watched& watched = Watched::instance();
  const std::lock_guard lock(watched.mutex);
  --watched.watches;
}

std::vector<BarState> BarWatch::bars() const {
  Watched& watched = Watched::instance();
  const std::lock_guard lock(watched.mutex);
  std::vector<BarState> states;
  for (const ProgressBar* bar : watched.bars)
    states.push_back(
        {bar->number_, bar->title_, bar->unit_, bar->done_, bar->total_, watched.words[bar->number_]});
  return states;
}

void clear_bar() {
  if (bar_is_there().exchange(false)) std::fputs(kClear, stderr);
}

bool shows_bars() { return progress_style() == ProgressStyle::bar; }

void announce(const std::string& phase) {
  if (Watched::instance().any()) return;
  if (progress_style() == ProgressStyle::lines) fmt::print(stderr, "{} ...\n", phase);
  if (!shows_bars()) return;
  PhaseLine::instance().set(phase);
  draw_phase();
}

Announcements::~Announcements() {
  PhaseLine::instance().set("");
  clear_bar();
}

ProgressBar::ProgressBar(std::string title, std::int64_t total, std::string unit, bool enabled,
                         BarNotes notes)
    : title_(std::move(title)),
      unit_(std::move(unit)),
      notes_(std::move(notes)),
      total_(total),
      enabled_(enabled && total > 0 && progress_style() != ProgressStyle::off),
      style_(progress_style()),
      start_ns_(now_ns()) {
  Watched& watched = Watched::instance();
  const std::lock_guard lock(watched.mutex);
  if (!enabled_ || watched.watches == 0) return;
  number_ = ++watched.last_number;
  watched.bars.push_back(this);
}

ProgressBar::~ProgressBar() {
  if (number_ != 0) {
    Watched& watched = Watched::instance();
    const std::lock_guard lock(watched.mutex);
    std::erase(watched.bars, this);
    watched.words.erase(number_);
    return;
  }
  if (!enabled_ || style_ != ProgressStyle::bar || last_draw_ns_ == 0) return;
  clear_bar();
  draw_phase();
}

void ProgressBar::advance(std::int64_t amount) {
  const std::int64_t done = done_.fetch_add(amount) + amount;
  if (!enabled_ || (number_ != 0 && !notes_.words)) return;
  constexpr std::int64_t kRedrawNs = 100'000'000, kLineNs = 10'000'000'000;
  std::int64_t last = last_draw_ns_;
  const bool often = number_ != 0 || style_ == ProgressStyle::bar;
  const std::int64_t now = now_ns(), pause = often ? kRedrawNs : kLineNs;
  if (now - std::max(last, start_ns_) < pause || !last_draw_ns_.compare_exchange_strong(last, now)) return;
  if (number_ == 0) return draw(done);
  const BarText text = this->text(done);
  Watched& watched = Watched::instance();
  const std::lock_guard lock(watched.mutex);
  watched.words[number_] = notes_.seconds_left ? text.words + "  " + text.left : text.words;
}

BarText ProgressBar::text(std::int64_t done) const {
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const double seconds = static_cast<double>(now_ns() - start_ns_) * 1e-9;
  std::string left = "?";
  if (notes_.seconds_left)
    left = format_seconds(notes_.seconds_left(done));
  else if (share > 0)
    left = format_seconds(seconds * (1 - share) / share);
  return {.title = title_,
          .words = notes_.words ? notes_.words() : std::string(),
          .share = share,
          .rate = format_rate(static_cast<double>(done) / std::max(seconds, 1e-9)) + unit_ + "/s",
          .left = left + " left"};
}

std::string BarText::line() const {
  constexpr std::size_t kTitle = 14, kLeast = 4, kMost = 24;
  const std::string head = words.empty() ? fmt::format("{:<{}}", title, kTitle) : title;
  const std::string percent = fmt::format("{:3.0f} %", share * 100);
  const std::string end = fmt::format("{}  {}", rate, left);
  const std::string tail = words.empty() ? end : fmt::format("{}  {}", words, end);
  const std::size_t taken = fmt::format("{} [] {}  {}", head, percent, tail).size();
  if (taken + kLeast <= kColumns) {
    const std::size_t width = std::min(kColumns - taken, kMost);
    const auto filled = at(share * static_cast<double>(width));
    return fmt::format("{} [{}{}] {}  {}", head, std::string(filled, '#'), std::string(width - filled, '.'),
                       percent, tail);
  }
  const std::string without_bar = fmt::format("{} {}  {}", title, percent, tail);
  return without_bar.size() <= kColumns ? without_bar : fmt::format("{} {}  {}", title, percent, end);
}

void ProgressBar::draw(std::int64_t done) {
  const BarText shown = text(done);
  if (style_ != ProgressStyle::bar) {
    const std::string words = shown.words.empty() ? std::string() : shown.words + "  ";
    fmt::print(stderr, "{} {:3.0f} %  {}{}  {}\n", shown.title, shown.share * 100, words, shown.rate,
               shown.left);
    return;
  }
  std::fputs(fmt::format("\r{}\x1b[K", shown.line()).c_str(), stderr);
  bar_is_there() = true;
}

}  // namespace strata
