// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "strata/tensor/array_copies.hpp"
#include "strata/util/error.hpp"

namespace strata::tensor {

Layout::Layout(const Placement& placement) {
  for (const Segment& s : placement.segments) {
    SegmentLayout layout{.first_row = end_};
    for (int level = 0; level < kNumStrata; ++level) {
      const Stratum stratum = kStrata[at(level)];
      layout.shift[level] = totals_[stratum] - end_;
      end_ += s[stratum];
      if (level + 1 < kNumStrata) layout.end[level] = end_;
    }
    segments_.push_back(layout);
    totals_ += s;
  }
}

void Layout::for_each_run(Count first, Count count, const std::function<void(const Run&)>& visit) const {
  const int num_segments = static_cast<int>(segments_.size());
  const Count end = first + count;
  for (Count row = first; row < end;) {
    const int index = segment_of(segments_.data(), num_segments, row);
    const SegmentLayout& s = segments_[at(index)];
    const Count segment_end = index + 1 < num_segments ? segments_[at(index) + 1].first_row : end_;
    const auto* const level_end = std::ranges::upper_bound(s.end, row);
    const Count run_end = std::min(level_end != std::end(s.end) ? *level_end : segment_end, end);
    visit({.location = locate(segments_.data(), num_segments, row), .first = row, .count = run_end - row});
    row = run_end;
  }
}

void validate(const TensorSpec& spec, const Placement& placement) {
  Count rows = 0;
  bool negative = spec.rows < 0 || spec.cols < 0;
  for (const Segment& s : placement.segments) {
    rows += s.rows();
    negative = negative || std::ranges::any_of(s, [](Count in_level) { return in_level < 0; });
  }
  if (negative || rows != spec.rows) {
    throw InputError(
        fmt::format("the placement of \"{}\" has {} rows, the tensor {}", spec.name, rows, spec.rows));
  }
  if (spec.cols > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(fmt::format("\"{}\" has {} columns; at most 2^31 - 1 can be had", spec.name, spec.cols));
  }
  if (spec.code && (spec.dtype != DType::u8 || spec.code.cols != spec.cols))
    throw InputError(fmt::format("\"{}\" has {} columns of {}, its code {} of u8", spec.name, spec.cols,
                                 name_of(spec.dtype), spec.code.cols));
  if (placement.stripe_rows < 1)
    throw InputError(fmt::format("\"{}\": stripes of {} rows", spec.name, placement.stripe_rows));
  if (rows / placement.stripe_rows > std::numeric_limits<std::uint32_t>::max()) {
    throw InputError(fmt::format("\"{}\" has {} rows: too many for stripes of {} rows", spec.name, rows,
                                 placement.stripe_rows),
                     "Use larger stripes.");
  }
}

}  // namespace strata::tensor
