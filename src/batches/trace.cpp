// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <string>

#include "strata/batches/pipeline.hpp"
#include "strata/util/files.hpp"

namespace strata::batches {
namespace {

constexpr std::array kLaneNames = {"sample", "neighbor exchange", "gather", "row exchange",
                                   "train",  "gradient sum",      "wait",   "evaluate"};

double microseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/// Names the rank's process and its lanes.
std::string names_of(int rank) {
  std::string text =
      fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})", rank, rank);
  for (std::size_t lane = 0; lane < kLaneNames.size(); ++lane) {
    text += fmt::format(
        ",\n"
        R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
        rank, lane, kLaneNames[lane]);
  }
  return text;
}

}  // namespace

Trace::Trace(std::size_t most_spans)
    : most_spans_(most_spans), start_(Clock::now()), wall_start_(std::chrono::system_clock::now()) {}

void Trace::add(Lane lane, Clock::time_point begin, Clock::time_point end, std::int64_t step) {
  keep({.begin = begin, .end = end, .step = step, .lane = lane});
}

void Trace::exchanged(const Messages& messages) {
  const bool rows = messages.what == Messages::What::rows;
  keep({.begin = messages.begin,
        .end = messages.end,
        .step = -1,
        .lane = rows ? Lane::row_exchange : Lane::neighbor_exchange,
        .hop = messages.hop});
}

void Trace::keep(const Span& span) {
  const std::lock_guard lock(mutex_);
  if (spans_.size() < most_spans_)
    spans_.push_back(span);
  else if (full_since_ == Clock::time_point{})
    full_since_ = span.end;
}

void Trace::write(const std::filesystem::path& path, const comm::Communicator& world) const {
  std::int64_t first = wall_start_.time_since_epoch().count();
  const std::int64_t mine = first;
  world.all_reduce(std::span(&first, 1), comm::Communicator::Op::min);
  const double offset = microseconds(std::chrono::system_clock::duration(mine - first));

  std::string text = names_of(world.rank());
  for (const Span& span : spans_) {
    const auto lane = at(span.lane);
    text += fmt::format(
        ",\n"
        R"({{"ph":"X","name":"{}{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})",
        kLaneNames[lane], span.hop < 0 ? "" : fmt::format(", hop {}", span.hop + 1), world.rank(), lane,
        offset + microseconds(span.begin - start_), microseconds(span.end - span.begin));
    if (span.step >= 0) text += fmt::format(R"(,"args":{{"step":{}}})", span.step);
    text += '}';
  }
  if (full_since_ != Clock::time_point{} && world.rank() == 0)
    spdlog::warn("--trace: {} has the first {:.0f} s of the run; the rest is left out", path.string(),
                 std::chrono::duration<double>(full_since_ - start_).count());
  const std::vector<std::string> texts = world.gather(text, 0);
  if (world.rank() != 0) return;
  write_file_atomically(path, fmt::format("{{\"traceEvents\":[\n{}\n]}}\n", fmt::join(texts, ",\n")));
}

}  // namespace strata::batches
