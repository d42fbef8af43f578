// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exchange/direct_exchange_cuda.hpp"
#include "strata/cuda/copy.hpp"

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

/// Picks with `stride` entries per list.
template <typename Id>
struct StridedPicks {
  std::int32_t* counts;
  Id* neighbors;
  EdgeId* edge_ids;  // null: not wanted
  int stride;
};

/// One thread per entry.
template <typename Id>
__global__ void spread(const Count* offsets, const Id* neighbors, const EdgeId* edge_ids, Count num_lists,
                       StridedPicks<Id> out) {
  for (Count e = first_item<Count>(); e < num_lists * out.stride; e += item_stride<Count>()) {
    const Count list = e / out.stride, pick = e - list * out.stride;
    const Count first = offsets[list], count = offsets[list + 1] - first;
    if (pick == 0) out.counts[list] = static_cast<std::int32_t>(count);
    if (pick >= count) continue;
    out.neighbors[e] = neighbors[first + pick];
    if (out.edge_ids != nullptr) out.edge_ids[e] = edge_ids[first + pick];
  }
}

__global__ void scatter_counts(const std::int32_t* positions, const std::int32_t* answered, Count num_asked,
                               Count* counts) {
  for (Count i = first_item<Count>(); i < num_asked; i += item_stride<Count>())
    if (positions[i] >= 0) counts[positions[i]] = answered[i];
}

/// One thread per entry of the answers.
template <typename Id>
__global__ void scatter_picks(const std::int32_t* positions, Count num_asked, StridedPicks<Id> answers,
                              DevicePickOutput<Id> out) {
  std::uint32_t num_picks = 0;
  for (Count e = first_item<Count>(); e < num_asked * answers.stride; e += item_stride<Count>()) {
    const Count asked = e / answers.stride, pick = e - asked * answers.stride;
    const Count position = positions[asked];
    if (position < 0) continue;
    const bool packed = out.offsets != nullptr;
    if (!packed && pick == 0) out.counts[position] = answers.counts[asked];
    if (pick >= answers.counts[asked]) continue;
    const Count place = (packed ? out.offsets[position] : position * answers.stride) + pick;
    out.neighbors[place] = answers.neighbors[e];
    if (out.edge_ids != nullptr) out.edge_ids[place] = answers.edge_ids[e];
    if (out.met != nullptr) mark(out.met, answers.neighbors[e]);
    ++num_picks;
  }
  add_to_total(out.offsets == nullptr ? out.num_edges : nullptr, num_picks);
}

void fill(const cuda::Array<Count>& array, const cuda::Stream& stream) {
  cuda::fill_async(array.data(), 0, static_cast<std::size_t>(array.size()) * sizeof(Count), stream);
}

}  // namespace

template <typename Id>
DirectExchange<Id>::DirectExchange(const ExchangeContext& context, const SamplerOptions& options,
                                   Device device)
    : wire_(*context.on_devices),
      device_(device),
      edge_ids_(options.edge_ids),
      segments_(
          comm::SegmentPeers::of(*context.topology, context.machine_offsets, context.communicator->rank()),
          wire_, device),
      scan_(device),
      served_count_(kDevice, 1, kServing, device),
      served_total_(kDevice, 1, kServing, device),
      frontier_nodes_(kDevice, std::ssize(options.fanouts), kAsking, device),
      remote_nodes_(kDevice, std::ssize(options.fanouts), kAsking, device),
      batch_traffic_(options.fanouts.size()),
      traffic_(options.fanouts.size()) {
  const cuda::Stream stream(device);
  fill(frontier_nodes_, stream);
  fill(remote_nodes_, stream);
  fill(served_total_, stream);
  stream.synchronize();
}

template <typename Id>
void DirectExchange<Id>::set_caps(std::span<const Count> caps) {
  caps_.assign(caps.begin(), caps.end());
  std::ranges::fill(batch_traffic_, HopTraffic{});
}

template <typename Id>
void DirectExchange<Id>::grow_caps() {
  std::ranges::transform(caps_, caps_.begin(), comm::grown_cap);
}

template <typename Id>
void DirectExchange<Id>::ask(const DeviceQuery& query, DevicePickChooser<Id>& chooser,
                             const cuda::Stream& stream) {
  stride_ = query.fanout;
  num_asked_ = 0;
  if (query.fanout == 0) return;
  const DeviceFrontier& frontier = query.frontier;
  segments_.pack({.ids = frontier.nodes, .count = frontier.count, .bound = frontier.bound}, caps_[query.hop],
                 {.ids = frontier_nodes_.data() + query.hop,
                  .remote = remote_nodes_.data() + query.hop,
                  .overflow = overflow_},
                 stream);
  num_asked_ = segments_.num_asked();
  if (caps_[query.hop] == 0) return;
  segments_.request(stream);
  reserve_answers(query.fanout, stream);
  serve(query, chooser, stream);
  send_answers(query.fanout, stream);
  describe_traffic(query.hop, query.fanout);
}

template <typename Id>
void DirectExchange<Id>::reserve_answers(int fanout, const cuda::Stream& stream) {
  const Count asked = segments_.num_asked(), served = segments_.num_served();
  reserve(answer_counts_, kDevice, asked, 0, kAsking, stream);
  reserve(answer_neighbors_, kDevice, asked * fanout, 0, kAsking, stream);
  reserve(served_nodes_, kDevice, served, 0, kServing, stream);
  reserve(served_counts_, kDevice, served, 0, kServing, stream);
  reserve(served_neighbors_, kDevice, served * fanout, 0, kServing, stream);
  if (!edge_ids_) return;
  reserve(answer_edge_ids_, kDevice, asked * fanout, 0, kAsking, stream);
  reserve(served_edge_ids_, kDevice, served * fanout, 0, kServing, stream);
}

template <typename Id>
void DirectExchange<Id>::send_answers(int fanout, const cuda::Stream& stream) {
  using Answer = typename comm::IdSegments<Id>::Answer;
  std::vector<Answer> answers{
      {served_counts_.data(), answer_counts_.data(), sizeof(std::int32_t)},
      {served_neighbors_.data(), answer_neighbors_.data(), fanout * static_cast<Count>(sizeof(Id))}};
  if (edge_ids_) {
    answers.push_back(
        {served_edge_ids_.data(), answer_edge_ids_.data(), fanout * static_cast<Count>(sizeof(EdgeId))});
  }
  segments_.answer(answers, stream);
}

template <typename Id>
void DirectExchange<Id>::serve(const DeviceQuery& query, DevicePickChooser<Id>& chooser,
                               const cuda::Stream& stream) {
  const Count num_served = segments_.num_served();
  if (num_served == 0) return;
  widen<<<blocks_for(num_served), kThreads, 0, stream.get()>>>(segments_.served(), num_served,
                                                               served_nodes_.data(), served_count_.data());
  cuda::check_launch("widen");
  const DeviceQuery asked{
      {served_nodes_.data(), served_count_.data(), num_served}, query.fanout, query.key, query.hop};
  if (!chooser.fills_strided(query.fanout)) {
    serve_packed(asked, chooser, stream);
    return;
  }
  chooser.choose(asked, nullptr,
                 {.neighbors = served_neighbors_.data(),
                  .edge_ids = edge_ids_ ? served_edge_ids_.data() : nullptr,
                  .edge_bound = num_served * query.fanout,
                  .counts = served_counts_.data(),
                  .num_edges = served_total_.data()},
                 stream);
}

template <typename Id>
void DirectExchange<Id>::serve_packed(const DeviceQuery& asked, DevicePickChooser<Id>& chooser,
                                      const cuda::Stream& stream) {
  const Count size = asked.frontier.bound, bound = size * asked.fanout;
  reserve(served_plan_, kDevice, size, 0, kServing, stream);
  reserve(served_offsets_, kDevice, size + 1, 0, kServing, stream);
  reserve(packed_neighbors_, kDevice, bound, 0, kServing, stream);
  if (edge_ids_) reserve(packed_edge_ids_, kDevice, bound, 0, kServing, stream);
  chooser.measure(asked, served_plan_.data(), served_offsets_.data(), stream);
  scan_.exclusive(served_offsets_.data(), size + 1, stream);
  chooser.choose(asked, served_plan_.data(),
                 {.neighbors = packed_neighbors_.data(),
                  .edge_ids = edge_ids_ ? packed_edge_ids_.data() : nullptr,
                  .edge_bound = bound,
                  .offsets = served_offsets_.data()},
                 stream);
  spread<<<blocks_for(bound), kThreads, 0, stream.get()>>>(
      served_offsets_.data(), packed_neighbors_.data(), packed_edge_ids_.data(), size,
      StridedPicks<Id>{served_counts_.data(), served_neighbors_.data(),
                       edge_ids_ ? served_edge_ids_.data() : nullptr, asked.fanout});
  cuda::check_launch("spread");
}

template <typename Id>
void DirectExchange<Id>::place_counts(Count* counts, const cuda::Stream& stream) {
  if (num_asked_ == 0) return;
  scatter_counts<<<blocks_for(num_asked_), kThreads, 0, stream.get()>>>(
      segments_.positions(), answer_counts_.data(), num_asked_, counts);
  cuda::check_launch("scatter_counts");
}

template <typename Id>
void DirectExchange<Id>::place_picks(const DevicePickOutput<Id>& out, const cuda::Stream& stream) {
  if (num_asked_ == 0) return;
  scatter_picks<<<blocks_for(num_asked_ * stride_), kThreads, 0, stream.get()>>>(
      segments_.positions(), num_asked_,
      StridedPicks<Id>{answer_counts_.data(), answer_neighbors_.data(), answer_edge_ids_.data(), stride_},
      out);
  cuda::check_launch("scatter_picks");
}

template <typename Id>
void DirectExchange<Id>::agree(const cuda::Stream& stream) {
  wire_.max(overflow_, 1, stream);
}

template <typename Id>
void DirectExchange<Id>::describe_traffic(std::size_t hop, int fanout) {
  const auto entry = static_cast<Count>(sizeof(Id) + (edge_ids_ ? sizeof(EdgeId) : 0));
  const Count per_id = static_cast<Count>(sizeof(std::int32_t)) + fanout * entry;
  const Count sent = segments_.bytes_sent(per_id), requested = segments_.bytes_sent(0);
  const Count messages_per_answer = edge_ids_ ? 3 : 2;
  batch_traffic_[hop] = {.request_messages = segments_.num_asked() / caps_[hop],
                         .request_bytes = requested,
                         .answer_messages = segments_.num_served() / caps_[hop] * messages_per_answer,
                         .answer_bytes = sent - requested,
                         .received_bytes = segments_.bytes_received(per_id),
                         .rounds = 2};
}

template <typename Id>
void DirectExchange<Id>::count_batch() {
  for (std::size_t hop = 0; hop < traffic_.size(); ++hop) traffic_[hop] += batch_traffic_[hop];
}

template <typename Id>
void DirectExchange<Id>::add_to(ExchangeReport& report) const {
  const std::size_t hops = traffic_.size();
  std::vector<Count> frontier(hops), remote(hops);
  const cuda::Stream stream(device_);
  cuda::copy_async(frontier.data(), frontier_nodes_.data(), hops * sizeof(Count), stream);
  cuda::copy_async(remote.data(), remote_nodes_.data(), hops * sizeof(Count), stream);
  stream.synchronize();
  for (std::size_t hop = 0; hop < hops; ++hop) {
    report.frontier_nodes[hop] += frontier[hop];
    report.remote_nodes[hop] += remote[hop];
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
