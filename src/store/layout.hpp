#pragma once
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "strata/store/chunk_tensor.hpp"
#include "strata/util/random.hpp"

namespace strata::store {

/// One segment with its place in the three strata, each of which numbers its own rows from 0 over all
/// segments.
///
/// Segments {2, 4, 2} and {1, 0, 3}: the second has first_row 8, replicated_end 9, striped_end 9; row 10 of
/// the tensor is row 10 + host_shift = 3 of the host stratum (rows 0 and 1 there are the first segment's 6
/// and 7).
struct SegmentLayout {
  Count first_row, replicated_end, striped_end;
  Count replicated_shift, striped_shift, host_shift;  ///< row + shift is the row within the stratum
};

struct Location {
  Stratum stratum;
  Count row;  ///< within the stratum
};

/// The segment that holds `row`: the last one that begins at or before it. Empty segments hold nothing: they
/// begin where the next one does.
STRATA_HOST_DEVICE inline int segment_of(const SegmentLayout* segments, int num_segments, Count row) {
  int low = 0,
      high = num_segments;  // invariant: segments[low] begins at or before row, segments[high] after it
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (segments[middle].first_row <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

STRATA_HOST_DEVICE inline Location locate(const SegmentLayout* segments, int num_segments, Count row) {
  const SegmentLayout& s = segments[segment_of(segments, num_segments, row)];
  if (row < s.replicated_end) return {Stratum::replicated, row + s.replicated_shift};
  if (row < s.striped_end) return {Stratum::striped, row + s.striped_shift};
  return {Stratum::host, row + s.host_shift};
}

/// How the striped stratum is dealt to the GPUs: blocks of `rows` rows, round robin.
struct Stripes {
  Count rows = 1;
  int shift = 0;  ///< log2 of a power of two; else -1
  int num_gpus = 0;

  static Stripes of(Count rows, int num_gpus) {
    const bool power = std::has_single_bit(static_cast<std::uint64_t>(rows));
    return {rows, power ? std::countr_zero(static_cast<std::uint64_t>(rows)) : -1, num_gpus};
  }
};

/// Where the row `row` of the striped stratum lies: on which GPU, as which of the rows there.
struct StripeLocation {
  int gpu;
  Count row;
};

STRATA_HOST_DEVICE inline StripeLocation locate_stripe(Count row, const Stripes& stripes) {
  // 32-bit division is several times faster; validate() keeps block numbers below 2^32.
  const auto block =
      static_cast<std::uint32_t>(stripes.shift >= 0 ? row >> stripes.shift : row / stripes.rows);
  const auto gpus = static_cast<std::uint32_t>(stripes.num_gpus);
  const std::uint32_t round = block / gpus;
  const Count in_block = row - Count{block} * stripes.rows;
  return {static_cast<int>(block - round * gpus), Count{round} * stripes.rows + in_block};
}

/// The rows of each stratum of a placement. A value.
class Layout {
 public:
  Layout() = default;
  explicit Layout(const Placement& placement);

  const std::vector<SegmentLayout>& segments() const { return segments_; }
  Count replicated_rows() const { return totals_.replicated; }
  Count striped_rows() const { return totals_.striped; }
  Count host_rows() const { return totals_.host; }

  /// A run of rows that lie one after the other in one stratum.
  struct Run {
    Location location;  ///< of the first
    Count first, count;
  };
  /// Cuts rows [first, first + count) into runs, ascending.
  void for_each_run(Count first, Count count, const std::function<void(const Run&)>& visit) const;

 private:
  std::vector<SegmentLayout> segments_;
  Segment totals_;
  Count end_ = 0;
};

/// Throws InputError unless the segments add up to the tensor's rows and stripes have rows.
void validate(const TensorSpec& spec, const Placement& placement);

}  // namespace strata::store
