// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "rows/local_rows.hpp"
#include "strata/batches/fetcher.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::batches {

/// Brings rows of other machines from GPU to GPU in messages of fixed size (comm::IdSegments), so that the
/// host sees no id. Rows that the halo keeps are found by an index on the GPU.
class DirectRows {
 public:
  virtual ~DirectRows() = default;

  /// The most rows to ask one rank for. The same on all ranks. It grows when a fetch does not fit.
  virtual void set_cap(Count rows) = 0;
  virtual bool ready() const = 0;  ///< set_cap() was called

  /// As RowFetcher::fetch(). False on all ranks if some rank asks for more rows than the cap allows: `out` is
  /// then worth nothing. Waits until this is known. REQUIRES: ready().
  virtual bool fetch(const FetchedIds& ids, float* out, const cuda::Stream& stream) = 0;

  virtual void add_to(RowExchangeReport& report) const = 0;  ///< waits for the device
};

/// Null where rows do not travel from GPU to GPU. CUDA builds only. References must outlive the result.
std::unique_ptr<DirectRows> make_direct_rows(const LocalRows& local, const RowExchangeContext& exchange,
                                             Device device);

}  // namespace strata::batches
