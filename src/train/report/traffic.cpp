// SPDX-License-Identifier: Apache-2.0
#include "report/traffic.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace strata::train {
namespace {

using nlohmann::json;

void subtract(std::vector<Count>& values, const std::vector<Count>& before) {
  for (std::size_t i = 0; i < before.size(); ++i) values[i] -= before[i];
}

sampling::HopTraffic difference(const sampling::HopTraffic& a, const sampling::HopTraffic& b) {
  return {.request_messages = a.request_messages - b.request_messages,
          .request_bytes = a.request_bytes - b.request_bytes,
          .answer_messages = a.answer_messages - b.answer_messages,
          .answer_bytes = a.answer_bytes - b.answer_bytes,
          .received_bytes = a.received_bytes - b.received_bytes,
          .rounds = a.rounds - b.rounds};
}

sampling::ExchangeReport difference(sampling::ExchangeReport a, const sampling::ExchangeReport& b) {
  subtract(a.frontier_nodes, b.frontier_nodes);
  subtract(a.remote_nodes, b.remote_nodes);
  subtract(a.cached_nodes, b.cached_nodes);
  subtract(a.hop_bytes, b.hop_bytes);
  for (std::size_t hop = 0; hop < b.traffic.size(); ++hop)
    a.traffic[hop] = difference(a.traffic[hop], b.traffic[hop]);
  a.bytes_sent -= b.bytes_sent;
  a.bytes_received -= b.bytes_received;
  a.seconds -= b.seconds;
  a.waited_seconds -= b.waited_seconds;
  a.repeated_batches -= b.repeated_batches;
  return a;
}

batches::RowExchangeReport difference(const batches::RowExchangeReport& a,
                                      const batches::RowExchangeReport& b) {
  return {.rows = a.rows - b.rows,
          .remote_rows = a.remote_rows - b.remote_rows,
          .cached_rows = a.cached_rows - b.cached_rows,
          .bytes_sent = a.bytes_sent - b.bytes_sent,
          .bytes_received = a.bytes_received - b.bytes_received,
          .request_messages = a.request_messages - b.request_messages,
          .request_bytes = a.request_bytes - b.request_bytes,
          .row_messages = a.row_messages - b.row_messages,
          .row_bytes = a.row_bytes - b.row_bytes,
          .rows_sent = a.rows_sent - b.rows_sent,
          .rows_received = a.rows_received - b.rows_received,
          .rounds = a.rounds - b.rounds,
          .repeated_fetches = a.repeated_fetches - b.repeated_fetches,
          .seconds = a.seconds - b.seconds,
          .waited_seconds = a.waited_seconds - b.waited_seconds};
}

json neighbors_json(const sampling::ExchangeReport& report) {
  json hops = json::array();
  for (std::size_t hop = 0; hop < report.traffic.size(); ++hop) {
    const sampling::HopTraffic& traffic = report.traffic[hop];
    hops.push_back({{"nodes", report.frontier_nodes[hop]},
                    {"remote", report.remote_nodes[hop]},
                    {"cached", report.cached_nodes[hop]},
                    {"request_messages", traffic.request_messages},
                    {"request_bytes", traffic.request_bytes},
                    {"answer_messages", traffic.answer_messages},
                    {"answer_bytes", traffic.answer_bytes},
                    {"received_bytes", traffic.received_bytes},
                    {"rounds", traffic.rounds}});
  }
  return {{"seconds", report.seconds},
          {"waited_seconds", report.waited_seconds},
          {"repeated", report.repeated_batches},
          {"hops", std::move(hops)}};
}

json rows_json(const batches::RowExchangeReport& report) {
  return {{"seconds", report.seconds},
          {"waited_seconds", report.waited_seconds},
          {"repeated", report.repeated_fetches},
          {"rows", report.rows},
          {"remote", report.remote_rows},
          {"cached", report.cached_rows},
          {"rows_sent", report.rows_sent},
          {"rows_received", report.rows_received},
          {"request_messages", report.request_messages},
          {"request_bytes", report.request_bytes},
          {"row_messages", report.row_messages},
          {"row_bytes", report.row_bytes},
          {"received_bytes", report.bytes_received},
          {"rounds", report.rounds}};
}

}  // namespace

RankTraffic RankTraffic::since(const RankTraffic& before) const {
  return {.neighbors = difference(neighbors, before.neighbors), .rows = difference(rows, before.rows)};
}

json rank_traffic_json(int rank, int machine, const EpochReport& epoch, const RankTraffic& traffic) {
  return {{"rank", rank},
          {"machine", machine},
          {"sample_seconds", epoch.stages.sample},
          {"gather_seconds", epoch.stages.gather},
          {"wait_seconds", epoch.stages.wait},
          {"compute_seconds", epoch.compute_seconds()},
          {"sum_seconds", epoch.sum_seconds},
          {"neighbors", neighbors_json(traffic.neighbors)},
          {"features", rows_json(traffic.rows)}};
}

json traffic_record(const comm::Communicator& world, const comm::Topology& topology, const EpochReport& epoch,
                    const RankTraffic& traffic, int batches_in_flight) {
  const int machine = topology.ranks[at(world.rank())].machine;
  const json mine = rank_traffic_json(world.rank(), machine, epoch, traffic);
  json ranks = json::array();
  for (const std::string& rank : world.gather(mine.dump(), 0)) ranks.push_back(json::parse(rank));
  if (world.rank() != 0) return {};
  return {{"type", "traffic"},
          {"epoch", epoch.epoch},
          {"steps", epoch.steps},
          {"batches_in_flight", batches_in_flight},
          {"ranks", std::move(ranks)}};
}

}  // namespace strata::train
