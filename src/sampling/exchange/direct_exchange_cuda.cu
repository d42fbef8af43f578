// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exchange/direct_exchange_cuda.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"

namespace strata::sampling {
namespace {

constexpr auto kDevice = cuda::Memory::device;
constexpr const char* kAsking = "sampling on other machines";
constexpr const char* kServing = "sampling for other machines";

/// The ids that were asked for, and their number, as a frontier.
template <typename Id>
__global__ void widen(const Id* ids, Count count, NodeId* nodes, Count* num_nodes) {
  if (first_item<Count>() == 0) *num_nodes = count;
  for (Count i = first_item<Count>(); i < count; i += item_stride<Count>()) nodes[i] = ids[i];
}

void fill(const cuda::Array<Count>& array, const cuda::Stream& stream) {
  cuda::fill_async(array.data(), 0, static_cast<std::size_t>(array.size()) * sizeof(Count), stream);
}

Range own_nodes(const ExchangeContext& context) {
  const auto rank = static_cast<std::size_t>(context.communicator->rank());
  const auto machine = static_cast<std::size_t>(context.topology->ranks[rank].machine);
  const NodeId first = context.machine_offsets[machine];
  return {first, context.machine_offsets[machine + 1] - first};
}

}  // namespace

template <typename Id>
DirectExchange<Id>::DirectExchange(const ExchangeContext& context, const SamplerOptions& options,
                                   Device device)
    : wire_(*context.on_devices),
      device_(device),
      options_(options),
      halo_(context.halo),
      own_nodes_(own_nodes(context)),
      segments_(
          comm::SegmentPeers::of(*context.topology, context.machine_offsets, context.communicator->rank()),
          wire_, device),
      serving_(device),
      packed_serving_(device),
      served_count_(kDevice, 1, kServing, device),
      frontier_nodes_(kDevice, std::ssize(options.fanouts), kAsking, device),
      remote_nodes_(kDevice, std::ssize(options.fanouts), kAsking, device),
      kept_nodes_(kDevice, std::ssize(options.fanouts), kAsking, device),
      batch_traffic_(options.fanouts.size()),
      traffic_(options.fanouts.size()) {
  const cuda::Stream stream(device);
  fill(frontier_nodes_, stream);
  fill(remote_nodes_, stream);
  fill(kept_nodes_, stream);
  stream.synchronize();
}

template <typename Id>
void DirectExchange<Id>::set_caps(Caps caps) {
  caps_ = std::move(caps);
  std::ranges::fill(batch_traffic_, HopTraffic{});
  const cuda::DeviceGuard guard(device_);
  const bool any_kept = halo_ != nullptr && halo_->index.size() > 0;
  const bool by_lists = !options_.device_chooser.of<Id>();  // a user's chooser knows only global ids
  if (!kept_ && any_kept && by_lists)
    kept_ = std::make_unique<KeptLists<Id>>(*halo_, own_nodes_, options_, device_);
}

template <typename Id>
void DirectExchange<Id>::grow_caps() {
  for (std::vector<Count>* caps : {&caps_.nodes, &caps_.picks})
    std::ranges::transform(*caps, caps->begin(), comm::grown_cap);
}

template <typename Id>
void DirectExchange<Id>::ask(const DeviceQuery& query, DevicePickChooser<Id>& chooser, Count edge_bound,
                             const cuda::Stream& stream) {
  answered_ = {};
  from_kept_ = {};
  if (query.fanout == 0) return;
  const DeviceFrontier& frontier = query.frontier;
  if (kept_) kept_->find(frontier, kept_nodes_.data() + query.hop, stream);
  segments_.pack(
      {.ids = kept_ ? kept_->others() : frontier.nodes, .count = frontier.count, .bound = frontier.bound},
      caps_.nodes[query.hop],
      {.ids = frontier_nodes_.data() + query.hop,
       .remote = remote_nodes_.data() + query.hop,
       .overflow = overflow_},
      stream);
  if (caps_.nodes[query.hop] > 0) exchange(query, chooser, stream);
  if (!kept_) return;
  kept_->choose(query, {edge_bound, overflow_}, stream);  // after what others wait for
  from_kept_ = kept_->placed();
}

/// Sends the packed requests, answers those of others, and receives the answers.
template <typename Id>
void DirectExchange<Id>::exchange(const DeviceQuery& query, DevicePickChooser<Id>& chooser,
                                  const cuda::Stream& stream) {
  segments_.request(stream);
  answered_ = {.positions = segments_.positions(), .num_lists = segments_.num_asked()};
  if (chooser.bounded_by_fanout())
    exchange_strided(query, chooser, stream);
  else
    exchange_packed(query, chooser, stream);
}

template <typename Id>
void DirectExchange<Id>::exchange_strided(const DeviceQuery& query, DevicePickChooser<Id>& chooser,
                                          const cuda::Stream& stream) {
  const Count num_served = segments_.num_served();
  const StridedPicks<Id> to = answered_.strided =
      asked_room_.reserve_for(segments_.num_asked(), query.fanout, options_.edge_ids, stream);
  const StridedPicks<Id> served =
      served_room_.reserve_for(num_served, query.fanout, options_.edge_ids, stream);
  if (num_served > 0) serving_.run(query_of_others(query, stream), chooser, served, stream);
  send_answers({served.counts, served.neighbors, served.edge_ids}, {to.counts, to.neighbors, to.edge_ids},
               caps_.nodes[query.hop] * query.fanout, query.hop, stream);
}

template <typename Id>
void DirectExchange<Id>::exchange_packed(const DeviceQuery& query, DevicePickChooser<Id>& chooser,
                                         const cuda::Stream& stream) {
  const Count nodes = caps_.nodes[query.hop], picks = caps_.picks[query.hop];
  const PackedPicks<Id> to = answered_.packed =
      packed_asked_room_.reserve_for({segments_.num_servers(), nodes, picks}, options_.edge_ids, stream);
  const PackedPicks<Id> served =
      packed_served_room_.reserve_for({segments_.num_clients(), nodes, picks}, options_.edge_ids, stream);
  if (segments_.num_served() > 0)
    packed_serving_.run(query_of_others(query, stream), chooser, served, overflow_, stream);
  send_answers({served.counts, served.neighbors, served.edge_ids}, {to.counts, to.neighbors, to.edge_ids},
               picks, query.hop, stream);
  packed_serving_.sum(to, stream);
}

/// The query for the nodes that others ask about.
template <typename Id>
DeviceQuery DirectExchange<Id>::query_of_others(const DeviceQuery& query, const cuda::Stream& stream) {
  const Count num_served = segments_.num_served();
  reserve(served_nodes_, kDevice, num_served, 0, kServing, stream);
  widen<<<blocks_for(num_served), kThreads, 0, stream.get()>>>(segments_.served(), num_served,
                                                               served_nodes_.data(), served_count_.data());
  cuda::check_launch("widen");
  DeviceQuery asked = query;
  asked.frontier = {
      .nodes = served_nodes_.data(), .count = served_count_.data(), .bound = num_served, .distinct = false};
  return asked;
}

template <typename Id>
void DirectExchange<Id>::send_answers(const Picks& served, const Picks& to, Count picks_per_segment,
                                      std::size_t hop, const cuda::Stream& stream) {
  using Answer = typename comm::IdSegments<Id>::Answer;
  constexpr auto kCount = static_cast<Count>(sizeof(std::int32_t)), kId = static_cast<Count>(sizeof(Id)),
                 kEdgeId = static_cast<Count>(sizeof(EdgeId));
  std::vector<Answer> answers{{served.counts, to.counts, caps_.nodes[hop] * kCount},
                              {served.neighbors, to.neighbors, picks_per_segment * kId}};
  if (options_.edge_ids) answers.push_back({served.edge_ids, to.edge_ids, picks_per_segment * kEdgeId});
  segments_.answer(answers, stream);
  Count bytes = 0;
  for (const Answer& answer : answers) bytes += answer.bytes_per_segment;
  const Count sent = segments_.bytes_sent(bytes), requested = segments_.bytes_sent(0);
  batch_traffic_[hop] = {.request_messages = segments_.num_servers(),
                         .request_bytes = requested,
                         .answer_messages = segments_.num_clients() * std::ssize(answers),
                         .answer_bytes = sent - requested,
                         .received_bytes = segments_.bytes_received(bytes),
                         .rounds = 2};
}

template <typename Id>
void DirectExchange<Id>::place_counts(Count* counts, const cuda::Stream& stream) {
  for (const PlacedPicks<Id>& placed : {answered_, from_kept_})
    sampling::place_counts(placed, counts, stream);
}

template <typename Id>
void DirectExchange<Id>::place_picks(const DevicePickOutput<Id>& out, const cuda::Stream& stream) {
  for (const PlacedPicks<Id>& placed : {answered_, from_kept_}) sampling::place_picks(placed, out, stream);
}

template <typename Id>
void DirectExchange<Id>::agree(const cuda::Stream& stream) {
  wire_.max(overflow_, 1, stream);
}

template <typename Id>
void DirectExchange<Id>::count_batch() {
  for (std::size_t hop = 0; hop < traffic_.size(); ++hop) traffic_[hop] += batch_traffic_[hop];
}

template <typename Id>
void DirectExchange<Id>::add_to(ExchangeReport& report) const {
  const std::size_t hops = traffic_.size();
  std::vector<Count> frontier(hops), remote(hops), kept(hops);
  const cuda::Stream stream(device_);
  cuda::copy_async(frontier.data(), frontier_nodes_.data(), hops * sizeof(Count), stream);
  cuda::copy_async(remote.data(), remote_nodes_.data(), hops * sizeof(Count), stream);
  cuda::copy_async(kept.data(), kept_nodes_.data(), hops * sizeof(Count), stream);
  stream.synchronize();
  for (std::size_t hop = 0; hop < hops; ++hop) {
    report.frontier_nodes[hop] += frontier[hop];
    report.remote_nodes[hop] += remote[hop] + kept[hop];
    report.cached_nodes[hop] += kept[hop];
    const HopTraffic& traffic = traffic_[hop];
    report.hop_bytes[hop] += traffic.request_bytes + traffic.answer_bytes;
    report.bytes_sent += traffic.request_bytes + traffic.answer_bytes;
    report.bytes_received += traffic.received_bytes;
    report.traffic[hop] += traffic;
  }
}

template class DirectExchange<std::int32_t>;
template class DirectExchange<std::int64_t>;

}  // namespace strata::sampling
