// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/random.hpp"

/// Where rows of a placement lie, for host and device code.
namespace strata::tensor {

constexpr int kMaxStripeGpus = 16;  ///< GPUs of one host

/// One segment with its place in the levels, each of which numbers its own rows from 0 over all segments.
///
/// Segments of {2, 4, 2} and {1, 0, 3} rows: the second has first_row 8, end[replicated] 9, end[striped] 9;
/// row 10 of the tensor is row 10 + shift[host] = 3 of host memory (rows 0 and 1 there are the first
/// segment's 6 and 7).
struct SegmentLayout {
  Count first_row = 0;
  Count end[kNumStrata - 1] = {};  ///< of all levels but the last
  Count shift[kNumStrata] = {};    ///< row + shift is the row within the level
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

/// Where a row lies, if it lies in one of the first kLevels; kernels pass kGpuStrata. It recurses, because a
/// loop costs kernels more branches.
template <int kLevels = kNumStrata, int kLevel = 0>
STRATA_HOST_DEVICE inline Location locate(const SegmentLayout& s, Count row) {
  if constexpr (kLevel + 1 < kLevels)
    if (row >= s.end[kLevel]) return locate<kLevels, kLevel + 1>(s, row);
  return {static_cast<Stratum>(kLevel), row + s.shift[kLevel]};
}

template <int kLevels = kNumStrata>
STRATA_HOST_DEVICE inline Location locate(const SegmentLayout* segments, int num_segments, Count row) {
  return locate<kLevels>(segments[segment_of(segments, num_segments, row)], row);
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

/// Where a row of the striped stratum lies: on which GPU, and which of that GPU's rows it is.
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

/// Copies of some elements of an array in the memory of GPUs, as one GPU reads them. A view, passed to
/// kernels by value.
///
/// The array itself is complete wherever it lies, so code that does not know of the copies reads the same
/// values.
struct ArrayStrata {
  int num_segments = 0;                     ///< 0: there are no copies
  SegmentLayout only{};                     ///< the segment, if there is one
  const SegmentLayout* segments = nullptr;  ///< [num_segments] in device memory
  const void* replicated = nullptr;         ///< elements on this GPU
  std::array<const void*, kMaxStripeGpus> stripe_data{};
  Stripes stripes;
};

/// The address of element i of `array`: in its copy, if it has one. For device code.
template <typename T>
STRATA_HOST_DEVICE const T* element(const T* array, const ArrayStrata& strata, Count i) {
  if (strata.num_segments == 0) return array + i;
  const Location at = strata.num_segments == 1 ? locate<kGpuStrata>(strata.only, i)
                                               : locate<kGpuStrata>(strata.segments, strata.num_segments, i);
  if (at.stratum == Stratum::replicated) return static_cast<const T*>(strata.replicated) + at.row;
  if (at.stratum == Stratum::host) return array + i;
  const StripeLocation stripe = locate_stripe(at.row, strata.stripes);
  return static_cast<const T*>(strata.stripe_data[static_cast<std::size_t>(stripe.gpu)]) + stripe.row;
}

/// The rows of each stratum of a placement. A value.
class Layout {
 public:
  Layout() = default;
  explicit Layout(const Placement& placement);

  const std::vector<SegmentLayout>& segments() const { return segments_; }
  Count rows(Stratum stratum) const { return totals_[stratum]; }
  Count on_gpus() const { return totals_.on_gpus(); }

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

class GpuStrata;

/// Copies of the elements of an array that a placement replicates or stripes, in the memory of the GPUs; the
/// array itself lies in host memory. An owner.
class ArrayCopies {
 public:
  /// Allocates the copies; their contents are undefined. `array` has one column. Without peer access there
  /// are no stripes: their elements then have no copy, which is logged. Collective over a machine whose
  /// ranks all have a GPU; throws on all of them alike.
  ArrayCopies(const comm::Machine& machine, const TensorSpec& array, Placement placement);
  ArrayCopies(ArrayCopies&&) noexcept;
  ArrayCopies& operator=(ArrayCopies&&) noexcept;
  ~ArrayCopies();

  /// Fills the copies from `elements`: the whole array, in host memory that all ranks see. Collective over
  /// the machine.
  void fill(const comm::Machine& machine, const void* elements);

  ArrayStrata strata() const { return strata_; }
  const Placement& placement() const { return placement_; }  ///< as realised
  void close(const comm::Machine& machine);                  ///< collective

 private:
  void adopt(const comm::Machine& machine);
  void write_share(const comm::Machine& machine, const std::byte* elements) const;

  Placement placement_;
  Count size_ = 0, element_bytes_ = 0;
  std::unique_ptr<GpuStrata> copies_;
  ArrayStrata strata_;
  cuda::Buffer segments_;
};

}  // namespace strata::tensor
