// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/comm/exchange_listener.hpp"

namespace strata::batches {

/// What the stages of a rank did when, for ui.perfetto.dev or chrome://tracing. Thread safe but for write().
///
/// Times are the host's: on a GPU, a span of the sampling stage ends when the batch's sizes are known, one of
/// the training stage when the host may go on, which is at most a step ahead of the GPU. The sum of gradients
/// is as long as its stream took, and ends when the host learns of it. Messages that go from GPU to GPU have
/// no spans of their own.
class Trace final : public comm::ExchangeListener {
 public:
  /// Lanes of a rank, from top to bottom.
  enum class Lane : std::uint8_t {
    sample,
    neighbor_exchange,
    gather,
    row_exchange,
    train,
    gradient_sum,
    wait,
    evaluate
  };

  /// Keeps so many spans, those of the first steps.
  explicit Trace(std::size_t most_spans);
  /// `step` is counted over the whole run; -1: none.
  void add(Lane lane, Clock::time_point begin, Clock::time_point end, std::int64_t step = -1);
  void exchanged(const Messages& messages) override;

  /// Writes the spans of all ranks into one file of trace events (JSON; one process per rank, one thread per
  /// timeline, microseconds since the first rank began). Warns where spans were left out. Collective; the
  /// first rank writes, atomically. Throws IoError there.
  void write(const std::filesystem::path& path, const comm::Communicator& world) const;

 private:
  struct Span {
    Clock::time_point begin, end;
    std::int64_t step;
    Lane lane;
    int hop = -1;
  };
  void keep(const Span& span);

  std::size_t most_spans_;
  std::mutex mutex_;
  std::vector<Span> spans_;
  Clock::time_point full_since_ = {};  // when the first span was left out
  Clock::time_point start_;
  std::chrono::system_clock::time_point wall_start_;  // what ranks on other hosts share
};

/// Adds a span from its making to its end; nothing with a null trace.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, Trace::Lane lane, std::int64_t step = -1)
      : trace_(trace), lane_(lane), step_(step), begin_(Trace::Clock::now()) {}
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->add(lane_, begin_, Trace::Clock::now(), step_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* trace_;
  Trace::Lane lane_;
  std::int64_t step_;
  Trace::Clock::time_point begin_;
};

}  // namespace strata::batches
