// SPDX-License-Identifier: Apache-2.0
#include "exchange/direct_exchange_cuda.hpp"
#include "strata/cuda/copy.hpp"

namespace strata::sampling {
namespace {

constexpr auto kDevice = cuda::Memory::device;
constexpr const char* kAsking = "sampling on other machines";
constexpr const char* kServing = "sampling for other machines";

/// One segment of ids per other machine, with the positions of the ids in the frontier.
template <typename Id>
struct Segments {
  Id* ids;                  // [machines - 1, cap]
  std::int32_t* positions;  // [machines - 1, cap]
  Count* sizes;             // [machines - 1]; more than cap if not all ids fit
  Count cap;
};

/// Global ids by machine.
struct MachineMap {
  const Count* offsets;  // [machines + 1]
  Count num_machines;
  int here;

  /// The segment for a node; -1 if it is of this machine.
  __device__ int segment_of(NodeId node) const {
    const auto machine = static_cast<int>(list_of(offsets, num_machines, node));
    return machine == here ? -1 : machine - (machine > here ? 1 : 0);
  }
};

/// What one hop adds to the report.
struct HopCounts {
  Count *frontier_nodes, *remote_nodes;
};

/// The order of the ids within a segment changes from run to run; answers are placed by position, so nothing
/// depends on it.
template <typename Id>
__global__ void pack_requests(DeviceFrontier frontier, MachineMap machines, Segments<Id> out,
                              HopCounts totals, Count* overflow) {
  const Count num_nodes = *frontier.count;
  if (first_item<Count>() == 0) *totals.frontier_nodes += num_nodes;
  const Count rounded = (num_nodes + kWarp - 1) / kWarp * kWarp;  // whole warps
  std::uint32_t num_remote = 0;
  for (Count i = first_item<Count>(); i < rounded; i += item_stride<Count>()) {
    const NodeId node = i < num_nodes ? frontier.nodes[i] : -1;
    const int segment = node >= 0 ? machines.segment_of(node) : -1;
    const unsigned peers = __match_any_sync(kAllLanes, segment);
    Count first = 0;
    const auto leader = static_cast<unsigned>(__ffs(static_cast<int>(peers))) - 1;
    if (segment >= 0 && lane_index() == leader) {
      first = static_cast<Count>(atomicAdd(reinterpret_cast<unsigned long long*>(out.sizes + segment),
                                           static_cast<unsigned long long>(__popc(peers))));
    }
    first = __shfl_sync(kAllLanes, first, leader);
    if (segment < 0) continue;
    ++num_remote;
    const Count place = first + __popc(peers & lanes_below());
    if (place >= out.cap) {
      *overflow = 1;
      continue;
    }
    out.ids[segment * out.cap + place] = static_cast<Id>(node);
    out.positions[segment * out.cap + place] = static_cast<std::int32_t>(i);
  }
  add_to_total(totals.remote_nodes, num_remote);
}

template <typename Id>
__global__ void widen(const Id* ids, Count count, NodeId* nodes) {
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

__global__ void set_count(Count* count, Count value) { *count = value; }

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

template <typename T>
void fill(cuda::Array<T>& array, int byte, Count count, const cuda::Stream& stream) {
  if (count > 0) cuda::fill_async(array.data(), byte, static_cast<std::size_t>(count) * sizeof(T), stream);
}

}  // namespace

template <typename Id>
DirectExchange<Id>::DirectExchange(const ExchangeContext& context, const SamplerOptions& options,
                                   Device device)
    : wire_(*context.on_devices),
      device_(device),
      edge_ids_(options.edge_ids),
      machine_offsets_(kDevice, std::ssize(context.machine_offsets), kAsking, device),
      scan_(device),
      served_count_(kDevice, 1, kServing, device),
      served_total_(kDevice, 1, kServing, device),
      frontier_nodes_(kDevice, std::ssize(options.fanouts), kAsking, device),
      remote_nodes_(kDevice, std::ssize(options.fanouts), kAsking, device),
      hop_bytes_(options.fanouts.size()) {
  const comm::Topology& topology = *context.topology;
  const int rank = context.communicator->rank();
  machine_ = topology.ranks[static_cast<std::size_t>(rank)].machine;
  for (int machine = 0; machine < topology.num_machines(); ++machine)
    if (machine != machine_) servers_.push_back(topology.rail(rank, machine));
  for (int other = 0; other < static_cast<int>(topology.ranks.size()); ++other) {
    if (topology.ranks[static_cast<std::size_t>(other)].machine != machine_ &&
        topology.rail(other, machine_) == rank)
      clients_.push_back(other);
  }
  const cuda::Stream stream(device);
  cuda::copy_async(machine_offsets_.data(), context.machine_offsets.data(),
                   context.machine_offsets.size_bytes(), stream);
  fill(frontier_nodes_, 0, frontier_nodes_.size(), stream);
  fill(remote_nodes_, 0, remote_nodes_.size(), stream);
  fill(served_total_, 0, 1, stream);
  stream.synchronize();
}

template <typename Id>
void DirectExchange<Id>::set_caps(std::span<const Count> caps) {
  caps_.assign(caps.begin(), caps.end());
}

template <typename Id>
void DirectExchange<Id>::reserve_hop(Count cap, int fanout, const cuda::Stream& stream) {
  const Count asked = num_machines() * cap, served = std::ssize(clients_) * cap;
  reserve(segment_sizes_, kDevice, num_machines(), 0, kAsking, stream);
  reserve(asked_, kDevice, asked, 0, kAsking, stream);
  reserve(positions_, kDevice, asked, 0, kAsking, stream);
  reserve(answer_counts_, kDevice, asked, 0, kAsking, stream);
  reserve(answer_neighbors_, kDevice, asked * fanout, 0, kAsking, stream);
  reserve(incoming_, kDevice, served, 0, kServing, stream);
  reserve(served_nodes_, kDevice, served, 0, kServing, stream);
  reserve(served_counts_, kDevice, served, 0, kServing, stream);
  reserve(served_neighbors_, kDevice, served * fanout, 0, kServing, stream);
  if (!edge_ids_) return;
  reserve(answer_edge_ids_, kDevice, asked * fanout, 0, kAsking, stream);
  reserve(served_edge_ids_, kDevice, served * fanout, 0, kServing, stream);
}

template <typename Id>
void DirectExchange<Id>::ask(const DeviceQuery& query, DevicePickChooser<Id>& chooser,
                             const cuda::Stream& stream) {
  const Count cap = caps_[query.hop];
  num_asked_ = query.fanout > 0 ? num_machines() * cap : 0;
  stride_ = query.fanout;
  if (query.fanout == 0) return;
  reserve_hop(cap, query.fanout, stream);
  fill(asked_, -1, num_asked_, stream);
  fill(positions_, -1, num_asked_, stream);
  fill(segment_sizes_, 0, num_machines(), stream);
  pack_requests<<<blocks_for(query.frontier.bound), kThreads, 0, stream.get()>>>(
      query.frontier, MachineMap{machine_offsets_.data(), num_machines() + 1, machine_},
      Segments<Id>{asked_.data(), positions_.data(), segment_sizes_.data(), cap},
      HopCounts{frontier_nodes_.data() + query.hop, remote_nodes_.data() + query.hop}, overflow_);
  cuda::check_launch("pack_requests");
  if (cap == 0) return;
  send_requests(cap, stream);
  serve(query, cap, chooser, stream);
  send_answers(cap, query.fanout, stream);
  count_bytes(query.hop, cap, query.fanout);
}

template <typename Id>
void DirectExchange<Id>::send_requests(Count cap, const cuda::Stream& stream) {
  std::vector<comm::DeviceExchange::Outgoing> sends;
  std::vector<comm::DeviceExchange::Incoming> receives;
  const Count bytes = cap * static_cast<Count>(sizeof(Id));
  for (std::size_t s = 0; s < servers_.size(); ++s)
    sends.push_back({servers_[s], asked_.data() + static_cast<Count>(s) * cap, bytes});
  for (std::size_t c = 0; c < clients_.size(); ++c)
    receives.push_back({clients_[c], incoming_.data() + static_cast<Count>(c) * cap, bytes});
  wire_.exchange(sends, receives, stream);
}

template <typename Id>
void DirectExchange<Id>::send_answers(Count cap, int fanout, const cuda::Stream& stream) {
  std::vector<comm::DeviceExchange::Outgoing> sends;
  std::vector<comm::DeviceExchange::Incoming> receives;
  const auto add = [&](auto& from, auto& to, Count entries) {
    const Count bytes = entries * static_cast<Count>(sizeof(*from.data()));
    for (std::size_t c = 0; c < clients_.size(); ++c)
      sends.push_back({clients_[c], from.data() + static_cast<Count>(c) * entries, bytes});
    for (std::size_t s = 0; s < servers_.size(); ++s)
      receives.push_back({servers_[s], to.data() + static_cast<Count>(s) * entries, bytes});
  };
  add(served_counts_, answer_counts_, cap);
  add(served_neighbors_, answer_neighbors_, cap * fanout);
  if (edge_ids_) add(served_edge_ids_, answer_edge_ids_, cap * fanout);
  wire_.exchange(sends, receives, stream);
}

template <typename Id>
void DirectExchange<Id>::serve(const DeviceQuery& query, Count cap, DevicePickChooser<Id>& chooser,
                               const cuda::Stream& stream) {
  const Count num_served = std::ssize(clients_) * cap;
  if (num_served == 0) return;
  widen<<<blocks_for(num_served), kThreads, 0, stream.get()>>>(incoming_.data(), num_served,
                                                               served_nodes_.data());
  cuda::check_launch("widen");
  set_count<<<1, 1, 0, stream.get()>>>(served_count_.data(), num_served);
  cuda::check_launch("set_count");
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
      positions_.data(), answer_counts_.data(), num_asked_, counts);
  cuda::check_launch("scatter_counts");
}

template <typename Id>
void DirectExchange<Id>::place_picks(const DevicePickOutput<Id>& out, const cuda::Stream& stream) {
  if (num_asked_ == 0) return;
  scatter_picks<<<blocks_for(num_asked_ * stride_), kThreads, 0, stream.get()>>>(
      positions_.data(), num_asked_,
      StridedPicks<Id>{answer_counts_.data(), answer_neighbors_.data(), answer_edge_ids_.data(), stride_},
      out);
  cuda::check_launch("scatter_picks");
}

template <typename Id>
void DirectExchange<Id>::agree(const cuda::Stream& stream) {
  wire_.max(overflow_, 1, stream);
}

template <typename Id>
void DirectExchange<Id>::count_bytes(std::size_t hop, Count cap, int fanout) {
  const auto entry = static_cast<Count>(sizeof(Id) + (edge_ids_ ? sizeof(EdgeId) : 0));
  const Count request = cap * static_cast<Count>(sizeof(Id)),
              answer = cap * (static_cast<Count>(sizeof(std::int32_t)) + fanout * entry);
  hop_bytes_[hop] += num_machines() * request + std::ssize(clients_) * answer;
  bytes_received_ += num_machines() * answer + std::ssize(clients_) * request;
}

template <typename Id>
void DirectExchange<Id>::add_to(ExchangeReport& report) const {
  const std::size_t hops = hop_bytes_.size();
  std::vector<Count> frontier(hops), remote(hops);
  const cuda::Stream stream(device_);
  cuda::copy_async(frontier.data(), frontier_nodes_.data(), hops * sizeof(Count), stream);
  cuda::copy_async(remote.data(), remote_nodes_.data(), hops * sizeof(Count), stream);
  stream.synchronize();
  for (std::size_t hop = 0; hop < hops; ++hop) {
    report.frontier_nodes[hop] += frontier[hop];
    report.remote_nodes[hop] += remote[hop];
    report.hop_bytes[hop] += hop_bytes_[hop];
    report.bytes_sent += hop_bytes_[hop];
  }
  report.bytes_received += bytes_received_;
}

template class DirectExchange<std::int32_t>;
template class DirectExchange<std::int64_t>;

}  // namespace strata::sampling
