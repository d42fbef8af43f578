// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/cuda/stream.hpp"
#include "strata/tensor/rows.hpp"
#include "strata/util/types.hpp"

namespace strata::store {

/// Feature rows that are read from the part files while batches are already made. An owner of the threads
/// that read them.
///
/// Every rank of a machine reads a share of the rows in the background, in the order of their heat. Whoever
/// needs a row that is not there yet reads it at once, and waits for nothing else.
class FeatureArrival {
 public:
  struct State;
  explicit FeatureArrival(std::unique_ptr<State> state);
  ~FeatureArrival();  ///< stops reading
  FeatureArrival(const FeatureArrival&) = delete;
  FeatureArrival& operator=(const FeatureArrival&) = delete;

  /// Returns when the rows of these ids are in place, so that a gather on `stream` may read them. While rows
  /// are missing it waits for the stream, on which the ids lie; afterwards it costs nothing.
  ///
  /// Rethrows what the background met: InputError for rows that are damaged or not finite, IoError. Thread
  /// safe; not collective.
  void require(const tensor::RowIds& ids, const cuda::Stream& stream);

  /// Returns when this rank's share of the rows is in place; rethrows what the background met. When it has
  /// returned on all ranks, all rows are there. For one thread, while none calls require().
  void finish();

  struct Report {
    Count late_rows = 0;            ///< of this machine, not in place at the start
    Count required_rows = 0;        ///< of those, that batches of this rank read themselves
    double required_seconds = 0;    ///< that this rank's batches waited for missing rows
    double background_seconds = 0;  ///< from the start until this rank's share was in place; 0: not yet
  };
  Report report() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace strata::store
