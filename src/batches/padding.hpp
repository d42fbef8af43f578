// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "strata/batches/fetcher.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::batches {

/// The shape that batches are padded to, and what it was measured from.
struct Padding {
  sampling::PaddedShape shape;  ///< no hops: batches are not padded
  BatchSizes sizes;             ///< of the measured batches
  Count requested_rows = 0;     ///< room for those that a batch asks another rank for; 0: the host asks
};

struct PaddingOptions {
  sampling::MiniBatchSampler* sampler = nullptr;  ///< gets the shape
  /// Gets the number of rows that a batch asks another rank for; null: the host directs what is asked for.
  RowFetcher* fetcher = nullptr;
  const comm::Communicator* communicator = nullptr;  ///< over all ranks
  const SeedSchedule* schedule = nullptr;
  std::vector<int> fanouts;
  bool strided = false;  ///< as SamplerOptions::strided
  std::uint64_t seed = 0;
};

/// Samples some batches of the first epoch and adds a margin to the largest. They are the same batches
/// whenever these options are, so that shapes, and with them roundings, repeat. Without hops if the sampler
/// does not know how large a batch can become. Waits for `stream`. Collective: on several machines the
/// batches are sampled together, and all ranks agree on what they ask each other for.
Padding measure_padding(const PaddingOptions& options, const cuda::Stream& stream);

}  // namespace strata::batches
