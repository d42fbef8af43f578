// SPDX-License-Identifier: Apache-2.0
#include "report/exchange_totals.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace strata::train {

ExchangeTotals sum_reports(const comm::Communicator& world, const sampling::ExchangeReport& neighbors,
                           const batches::RowExchangeReport& rows) {
  std::vector<std::int64_t> hops;
  for (std::size_t hop = 0; hop < neighbors.frontier_nodes.size(); ++hop)
    hops.insert(hops.end(), {neighbors.frontier_nodes[hop], neighbors.remote_nodes[hop],
                             neighbors.cached_nodes[hop], neighbors.hop_bytes[hop]});
  std::array counts{rows.rows, rows.remote_rows, rows.cached_rows, rows.bytes_sent};
  std::array seconds{neighbors.seconds, neighbors.waited_seconds, rows.seconds, rows.waited_seconds};
  world.all_reduce(std::span(hops));
  world.all_reduce(std::span(counts));
  world.all_reduce(std::span(seconds));
  for (double& value : seconds) value /= world.size();

  ExchangeTotals totals{.hops = {},
                        .rows = counts[0],
                        .remote_rows = counts[1],
                        .cached_rows = counts[2],
                        .row_bytes = counts[3],
                        .neighbors = {seconds[0], seconds[1]},
                        .features = {seconds[2], seconds[3]}};
  if (std::ranges::all_of(hops, [](std::int64_t sum) { return sum == 0; })) return totals;
  for (std::size_t i = 0; i < hops.size(); i += 4)
    totals.hops.push_back({hops[i], hops[i + 1], hops[i + 2], hops[i + 3]});
  return totals;
}

}  // namespace strata::train
