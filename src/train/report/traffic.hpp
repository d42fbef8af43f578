// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "report/report.hpp"
#include "strata/batches/fetcher.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::train {

/// The messages of a rank with other machines.
struct RankTraffic {
  sampling::ExchangeReport neighbors;
  batches::RowExchangeReport rows;

  /// The traffic since `before`, which was reported earlier. The largest requests are those of the whole run.
  RankTraffic since(const RankTraffic& before) const;
};

/// What `traffic` says of a rank and an epoch: its times, bytes and messages. They are what the model of a
/// step needs.
nlohmann::json rank_traffic_json(int rank, int machine, const EpochReport& epoch, const RankTraffic& traffic);

/// The record of an epoch with what all ranks exchanged, on the first rank; null elsewhere. Collective.
nlohmann::json traffic_record(const comm::Communicator& world, const comm::Topology& topology,
                              const EpochReport& epoch, const RankTraffic& traffic, int batches_in_flight);

}  // namespace strata::train
