// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <vector>

#include "strata/tensor/array_strata.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::tensor {

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

}  // namespace strata::tensor
