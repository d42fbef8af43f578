// SPDX-License-Identifier: Apache-2.0
#include "strata/util/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "strata/util/format.hpp"

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

/// Whether the last that was written on the terminal's line is a bar.
std::atomic<bool>& bar_is_there() {
  static std::atomic<bool> is_there{false};
  return is_there;
}

}  // namespace

void clear_bar() {
  if (bar_is_there().exchange(false)) std::fputs(kClear, stderr);
}

bool shows_bars() { return progress_style() == ProgressStyle::bar; }

void announce(const std::string& phase) {
  if (progress_style() == ProgressStyle::lines) fmt::print(stderr, "{} ...\n", phase);
}

ProgressBar::ProgressBar(std::string title, std::int64_t total, std::string unit, bool enabled)
    : title_(std::move(title)),
      unit_(std::move(unit)),
      total_(total),
      enabled_(enabled && total > 0 && progress_style() != ProgressStyle::off),
      style_(progress_style()),
      start_ns_(now_ns()) {}

ProgressBar::~ProgressBar() {
  if (enabled_ && style_ == ProgressStyle::bar && last_draw_ns_ != 0) clear_bar();
}

void ProgressBar::advance(std::int64_t amount) {
  const std::int64_t done = done_.fetch_add(amount) + amount;
  if (!enabled_) return;
  constexpr std::int64_t kRedrawNs = 100'000'000, kLineNs = 10'000'000'000;
  std::int64_t last = last_draw_ns_;
  const std::int64_t now = now_ns(), pause = style_ == ProgressStyle::bar ? kRedrawNs : kLineNs;
  if (now - std::max(last, start_ns_) < pause || !last_draw_ns_.compare_exchange_strong(last, now)) return;
  draw(done);
}

/// " 41 %  1.2M nodes/s  0:03 left"
std::string ProgressBar::state(std::int64_t done) const {
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const double seconds = static_cast<double>(now_ns() - start_ns_) * 1e-9;
  const std::string left = share > 0 ? format_seconds(seconds * (1 - share) / share) : "?";
  return fmt::format("{:3.0f} %  {}{}/s  {} left", share * 100,
                     format_rate(static_cast<double>(done) / std::max(seconds, 1e-9)), unit_, left);
}

void ProgressBar::draw(std::int64_t done) {
  if (style_ != ProgressStyle::bar) {
    fmt::print(stderr, "{} {}\n", title_, state(done));
    return;
  }
  constexpr int kWidth = 24;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const int filled = static_cast<int>(share * kWidth);
  const std::string line =
      fmt::format("\r{:<14} [{}{}] {}\x1b[K", title_, std::string(static_cast<std::size_t>(filled), '#'),
                  std::string(static_cast<std::size_t>(kWidth - filled), '.'), state(done));
  std::fputs(line.c_str(), stderr);
  bar_is_there() = true;
}

}  // namespace strata
