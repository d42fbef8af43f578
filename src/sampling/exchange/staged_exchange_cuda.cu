// SPDX-License-Identifier: Apache-2.0
#include "exchange/staged_exchange_cuda.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::sampling {
namespace {

constexpr auto kPinned = cuda::Memory::pinned;
constexpr auto kDevice = cuda::Memory::device;

/// Packed picks of remote nodes, and the positions of these nodes in the frontier.
template <typename Id>
struct RemotePicks {
  const Count* positions;  // [count]
  const Count* offsets;    // [count + 1]
  Count count;
  const Id* neighbors;
  const EdgeId* edge_ids;
};

template <typename Id>
__global__ void scatter_counts(RemotePicks<Id> remote, Count* counts) {
  for (Count i = first_item<Count>(); i < remote.count; i += item_stride<Count>()) {
    counts[remote.positions[i]] = remote.offsets[i + 1] - remote.offsets[i];
  }
}

template <typename Id>
__global__ void scatter_picks(RemotePicks<Id> remote, Count num_edges, DevicePickOutput<Id> out) {
  for (Count e = first_item<Count>(); e < num_edges; e += item_stride<Count>()) {
    const Count i = list_of(remote.offsets, remote.count, e);
    const Count pick = out.offsets[remote.positions[i]] + e - remote.offsets[i];
    out.neighbors[pick] = remote.neighbors[e];
    if (out.met != nullptr) mark(out.met, remote.neighbors[e]);
    if (out.edge_ids != nullptr) out.edge_ids[pick] = remote.edge_ids[e];
  }
}

template <typename T>
void copy(T* to, const T* from, Count count, const cuda::Stream& stream) {
  if (count > 0) cuda::copy_async(to, from, static_cast<std::size_t>(count) * sizeof(T), stream);
}

}  // namespace

template <typename Id>
StagedExchange<Id>::StagedExchange(const ExchangeContext& context, const SamplerOptions& options,
                                   Device device)
    : exchange_(context, options),
      edge_ids_(options.edge_ids),
      key_(kPinned, 1, "sampling on other machines", device),
      scan_(device),
      served_count_(kDevice, 1, "sampling for other machines", device) {}

template <typename Id>
void StagedExchange<Id>::ask(const DeviceQuery& query, DevicePickChooser<Id>& chooser, Count /*edge_bound*/,
                             const cuda::Stream& stream) {
  const Count size = query.frontier.bound;
  reserve(frontier_, kPinned, size, 0, "sampling on other machines", stream);
  copy(frontier_.data(), query.frontier.nodes, size, stream);
  copy(key_.data(), query.key, 1, stream);
  stream.synchronize();
  const std::span<const NodeId> asked =
      exchange_.ask({{frontier_.data(), static_cast<std::size_t>(size)}, query.fanout, key_[0], query.hop});
  upload(exchange_.answer(serve(asked, query, chooser, stream)), stream);
}

// Waits twice: for the counts, which give the sizes of buffers, and for the picks.
template <typename Id>
PickAnswers<Id> StagedExchange<Id>::serve(std::span<const NodeId> nodes, const DeviceQuery& query,
                                          DevicePickChooser<Id>& chooser, const cuda::Stream& stream) {
  static constexpr const char* kWhat = "sampling for other machines";
  const auto size = static_cast<Count>(nodes.size());
  if (size == 0) return {};
  reserve(incoming_, kPinned, size, 0, kWhat, stream);
  reserve(host_offsets_, kPinned, size + 1, 0, kWhat, stream);
  reserve(host_counts_, cuda::Memory::host, size, 0, kWhat, stream);
  reserve(served_nodes_, kDevice, size, 0, kWhat, stream);
  reserve(served_plan_, kDevice, size, 0, kWhat, stream);
  reserve(served_offsets_, kDevice, size + 1, 0, kWhat, stream);
  std::copy(nodes.begin(), nodes.end(), incoming_.data());
  host_offsets_[0] = size;  // brings the count to the GPU and the offsets back
  copy(served_nodes_.data(), incoming_.data(), size, stream);
  copy(served_count_.data(), host_offsets_.data(), 1, stream);
  DeviceQuery asked = query;
  asked.frontier = {
      .nodes = served_nodes_.data(), .count = served_count_.data(), .bound = size, .distinct = false};
  chooser.measure(asked, served_plan_.data(), served_offsets_.data(), stream);
  scan_.exclusive(served_offsets_.data(), size + 1, stream);
  copy(host_offsets_.data(), served_offsets_.data(), size + 1, stream);
  stream.synchronize();

  const Count num_edges = host_offsets_[size];
  reserve(served_neighbors_, kDevice, num_edges, 0, kWhat, stream);
  reserve(host_neighbors_, kPinned, num_edges, 0, kWhat, stream);
  if (edge_ids_) {
    reserve(served_edge_ids_, kDevice, num_edges, 0, kWhat, stream);
    reserve(host_edge_ids_, kPinned, num_edges, 0, kWhat, stream);
  }
  chooser.choose(asked, served_plan_.data(),
                 {.neighbors = served_neighbors_.data(),
                  .edge_ids = edge_ids_ ? served_edge_ids_.data() : nullptr,
                  .edge_bound = num_edges,
                  .offsets = served_offsets_.data()},
                 stream);
  copy(host_neighbors_.data(), served_neighbors_.data(), num_edges, stream);
  if (edge_ids_) copy(host_edge_ids_.data(), served_edge_ids_.data(), num_edges, stream);
  for (Count i = 0; i < size; ++i)
    host_counts_[i] = static_cast<std::int32_t>(host_offsets_[i + 1] - host_offsets_[i]);
  stream.synchronize();
  const auto edges = static_cast<std::size_t>(num_edges);
  return {{host_counts_.data(), nodes.size()},
          {host_neighbors_.data(), edges},
          {host_edge_ids_.data(), edge_ids_ ? edges : 0}};
}

// The exchange keeps its answers until the next request, and the sampler waits for the stream before that.
template <typename Id>
void StagedExchange<Id>::upload(const PickAnswers<Id>& answers, const cuda::Stream& stream) {
  static constexpr const char* kWhat = "sampling on other machines";
  num_remote_ = static_cast<Count>(answers.counts.size());
  num_remote_edges_ = static_cast<Count>(answers.neighbors.size());
  reserve(host_offsets_, kPinned, num_remote_ + 1, 0, kWhat, stream);
  host_offsets_[0] = 0;
  for (Count i = 0; i < num_remote_; ++i) {
    host_offsets_[i + 1] = host_offsets_[i] + answers.counts[static_cast<std::size_t>(i)];
  }
  reserve(remote_positions_, kDevice, num_remote_, 0, kWhat, stream);
  reserve(remote_offsets_, kDevice, num_remote_ + 1, 0, kWhat, stream);
  reserve(remote_neighbors_, kDevice, num_remote_edges_, 0, kWhat, stream);
  copy(remote_positions_.data(), exchange_.remote_positions().data(), num_remote_, stream);
  copy(remote_offsets_.data(), host_offsets_.data(), num_remote_ + 1, stream);
  copy(remote_neighbors_.data(), answers.neighbors.data(), num_remote_edges_, stream);
  if (!edge_ids_) return;
  reserve(remote_edge_ids_, kDevice, num_remote_edges_, 0, kWhat, stream);
  copy(remote_edge_ids_.data(), answers.edge_ids.data(), num_remote_edges_, stream);
}

template <typename Id>
void StagedExchange<Id>::place_counts(Count* counts, const cuda::Stream& stream) {
  const RemotePicks<Id> remote{remote_positions_.data(), remote_offsets_.data(), num_remote_, nullptr,
                               nullptr};
  scatter_counts<<<blocks_for(num_remote_), kThreads, 0, stream.get()>>>(remote, counts);
  cuda::check_launch("scatter_counts");
}

template <typename Id>
void StagedExchange<Id>::place_picks(const DevicePickOutput<Id>& out, const cuda::Stream& stream) {
  const RemotePicks<Id> remote{remote_positions_.data(), remote_offsets_.data(), num_remote_,
                               remote_neighbors_.data(), remote_edge_ids_.data()};
  scatter_picks<<<blocks_for(num_remote_edges_), kThreads, 0, stream.get()>>>(remote, num_remote_edges_, out);
  cuda::check_launch("scatter_picks");
}

template class StagedExchange<std::int32_t>;
template class StagedExchange<std::int64_t>;

}  // namespace strata::sampling
