// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_lists.cuh"

namespace strata::partition {
namespace {

constexpr std::int64_t kMarginBytes = std::int64_t{256} << 20;  // for tables of sums and what others allocate
constexpr Count kEntriesAtOnce = Count{1} << 24;  // per copy; pages of files may be released between copies

Count entry_bytes(const LevelGraph& graph) { return graph.edge_weights == nullptr ? 4 : 8; }

std::int64_t free_device_bytes() {
  std::size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return std::max<std::int64_t>(static_cast<std::int64_t>(free) / 10 * 9 - kMarginBytes, 0);
}

}  // namespace

DeviceLists::DeviceLists(const LevelGraph& graph, std::int64_t limit_bytes, cudaStream_t stream)
    : graph_{graph}, stream_{stream}, begin_{graph.num_nodes + 1} {
  begin_.write(graph.begin, graph.num_nodes + 1, stream);
  for (Count v = 0; v < graph.num_nodes; ++v) most_degree_ = std::max(most_degree_, graph.degree(v));
  const std::int64_t limit = limit_bytes > 0 ? limit_bytes : free_device_bytes();
  const Count room = limit / entry_bytes(graph);
  resident_ = graph.num_entries() <= room;
  const Count buffer = resident_ ? graph.num_entries() : std::max({room, most_degree_, largest_chunk()});
  ids_ = DeviceArray<std::int32_t>{buffer};
  if (graph.edge_weights != nullptr) weights_ = DeviceArray<std::uint32_t>{buffer};
  if (resident_) {
    copy_lists(0, graph.num_nodes, 0);
    all_ = {{0, graph.num_nodes}};
    return;
  }
  Chunks::Range range{0, 0};
  for (Count v = 0; v < graph.num_nodes; ++v) {
    if (graph.begin[v + 1] - graph.begin[range.begin] > buffer) {
      all_.push_back(range);
      range.begin = v;
    }
    range.end = v + 1;
  }
  all_.push_back(range);
}

/// The size of the largest chunk; chunks of a level begin at multiples of their size, whatever the key.
Count DeviceLists::largest_chunk() const {
  const Count size = Chunks{graph_.num_nodes, 0}.size();
  Count most = 0;
  for (Count v = 0; v < graph_.num_nodes; v += size)
    most = std::max(most, entries({v, std::min(v + size, graph_.num_nodes)}));
  return most;
}

void DeviceLists::copy_lists(Count first, Count last, Count to) {
  for (Count e = graph_.begin[first]; e < graph_.begin[last]; e += kEntriesAtOnce) {
    const Count count = std::min(kEntriesAtOnce, graph_.begin[last] - e);
    const Count place = to + e - graph_.begin[first];
    const auto items = static_cast<std::size_t>(count);
    cuda::check(cudaMemcpyAsync(ids_.data() + place, graph_.ids + e, items * sizeof(std::int32_t),
                                cudaMemcpyHostToDevice, stream_),
                "neighbors to the GPU");
    if (graph_.edge_weights != nullptr)
      cuda::check(cudaMemcpyAsync(weights_.data() + place, graph_.edge_weights + e,
                                  items * sizeof(std::uint32_t), cudaMemcpyHostToDevice, stream_),
                  "weights to the GPU");
    graph_.release_pages();
  }
}

ListsView DeviceLists::load(std::span<const Chunks::Range> ranges, std::size_t& taken) {
  std::vector<DevicePiece> pieces;
  Count filled = 0, most_nodes = 0;
  for (const Chunks::Range& range : ranges) {
    if (!resident_ && filled + entries(range) > ids_.size()) break;
    if (!resident_) copy_lists(range.begin, range.end, filled);
    pieces.push_back({range.begin, range.end, resident_ ? 0 : graph_.begin[range.begin] - filled});
    most_nodes = std::max(most_nodes, range.end - range.begin);
    filled += entries(range);
  }
  taken = pieces.size();
  if (pieces_.size() < std::ssize(pieces)) pieces_ = DeviceArray<DevicePiece>{std::ssize(pieces)};
  pieces_.write(pieces.data(), std::ssize(pieces), stream_);
  return {.begin = begin_.data(),
          .ids = ids_.data(),
          .weights = graph_.edge_weights == nullptr ? nullptr : weights_.data(),
          .pieces = pieces_.data(),
          .num_pieces = static_cast<int>(pieces.size()),
          .most_nodes = most_nodes};
}

}  // namespace strata::partition
