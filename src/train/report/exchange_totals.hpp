// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "strata/batches/fetcher.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::train {

/// Requests of a run's machines to each other while it trained, summed over the ranks.
struct ExchangeTotals {
  struct Hop {
    Count frontier = 0;  ///< nodes whose neighbors were sampled
    Count remote = 0;    ///< of these, nodes of other machines
    Count cached = 0;    ///< of these, answered by the halo cache
    Count bytes = 0;     ///< that were sent: ids, counts and neighbors
  };
  struct Seconds {
    double all = 0;     ///< that messages took, including what other ranks let one wait; mean over the ranks
    double waited = 0;  ///< of these, that their stage waited for
  };
  std::vector<Hop> hops;  ///< none where no neighbors are exchanged
  Count rows = 0, remote_rows = 0, cached_rows = 0;
  Count row_bytes = 0;  ///< that were sent: ids and feature rows
  Seconds neighbors, features;
};

/// Collective.
ExchangeTotals sum_reports(const comm::Communicator& world, const sampling::ExchangeReport& neighbors,
                           const batches::RowExchangeReport& rows);

}  // namespace strata::train
