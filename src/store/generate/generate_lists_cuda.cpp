// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <vector>

#include "generate/generate_cuda.hpp"
#include "generate/generate_kernels.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/plan/graph_shape.hpp"
#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"

namespace strata::store {
namespace {

constexpr Count kNodesPerPiece = 1 << 14;  // of a loop on CPU threads

/// Makes this rank's share of the lists on its GPU, piece by piece: the lists whose first entry lies in the
/// rank's share of all entries.
class ListMaker {
 public:
  /// `offsets` [nodes + 1] of the lists before anything is dropped, in a HostRegion.
  ListMaker(const GenerateTask& task, Count* offsets)
      : words_(task.spec.seed, graph::Purpose::edge),
        num_nodes_(task.spec.nodes),
        drop_self_loops_(task.read.self_loops == graph::EdgePolicy::remove),
        drop_duplicates_(task.read.duplicates == graph::EdgePolicy::remove),
        offsets_(offsets),
        device_(task.machine.device()),
        stream_(device_) {
    cut(share_of_lists(task.machine));
    const auto on_device = [&](Count size) {
      return cuda::Array<Count>(cuda::Memory::device, size, "making neighbor lists", device_);
    };
    dropped_ = on_device(1);
    piece_offsets_ = on_device(most_nodes_ + 1);
    piece_begins_ = on_device(most_nodes_ + 1);
  }

  /// Entries that the policies drop from this share.
  Count count_dropped() {
    const cuda::DeviceGuard guard(device_);
    cuda::fill_async(dropped_.data(), 0, sizeof(Count), stream_);
    for_each_piece([&](const ListTask& lists) { count_entries(lists, dropped_.data(), nullptr, stream_); });
    Count dropped = 0;
    cuda::copy_async(&dropped, dropped_.data(), sizeof(Count), stream_);
    stream_.synchronize();
    return dropped;
  }

  /// kept[v + 1] = entries of list v that stay, for this share. `kept` lies in a HostRegion.
  void count_kept(Count* kept) {
    for_each_piece([&](const ListTask& lists) {
      count_entries(lists, dropped_.data(), piece_begins_.data(), stream_);
      cuda::copy_async(kept + lists.first_node + 1, piece_begins_.data(), bytes_of(lists.num_lists), stream_);
    });
    stream_.synchronize();
  }

  /// Starts to write this share of the lists; list v goes to indices[begins[v]]. `begins` lies in a
  /// HostRegion.
  void start_writing(Count* begins, const HostIds& indices) {
    const bool wide = indices.view().wide;
    const std::size_t width = wide ? sizeof(std::int64_t) : sizeof(std::int32_t);
    entries_ =
        cuda::Buffer(cuda::Memory::device, at(most_entries_) * width, "making neighbor lists", device_);
    auto* const region = static_cast<std::byte*>(indices.visit([](auto* ids) -> void* { return ids; }));
    for_each_piece([&](const ListTask& lists) {
      cuda::copy_async(piece_begins_.data(), begins + lists.first_node, bytes_of(lists.num_lists + 1),
                       stream_);
      write_lists(lists, {.begins = piece_begins_.data(), .out = entries_.data(), .wide = wide}, stream_);
      const Count first = begins[lists.first_node], end = begins[lists.first_node + lists.num_lists];
      cuda::copy_async(region + at(first) * width, entries_.data(), at(end - first) * width, stream_);
    });
  }
  void finish_writing() const { stream_.synchronize(); }

 private:
  static constexpr Count kMostNodes = Count{1} << 22;    // of a piece
  static constexpr Count kMostEntries = Count{1} << 24;  // of a piece, unless one list is longer

  static std::size_t bytes_of(Count counts) { return at(counts) * sizeof(Count); }

  Range share_of_lists(const comm::Machine& machine) const {
    const Range entries = share_of({0, offsets_[num_nodes_]}, machine.rank(), machine.size());
    const auto list_at = [&](Count entry) {
      return std::lower_bound(offsets_, offsets_ + num_nodes_, entry) - offsets_;
    };
    const NodeId first = list_at(entries.first);
    const NodeId end = machine.rank() + 1 == machine.size() ? num_nodes_ : list_at(entries.end());
    return {first, end - first};
  }

  /// Sets the pieces and their greatest sizes.
  void cut(Range lists) {
    for (NodeId first = lists.first; first < lists.end();) {
      const Count* const limit =
          std::upper_bound(offsets_ + first, offsets_ + lists.end() + 1, offsets_[first] + kMostEntries);
      const NodeId fitting = std::min<NodeId>(limit - offsets_ - 1, first + kMostNodes);
      const NodeId end = std::clamp(fitting, first + 1, lists.end());
      pieces_.push_back({first, end - first});
      most_nodes_ = std::max(most_nodes_, end - first);
      most_entries_ = std::max(most_entries_, offsets_[end] - offsets_[first]);
      first = end;
    }
  }

  /// Calls body(task) for each piece, with its offsets on the device. The stream orders the pieces.
  template <typename Body>
  void for_each_piece(Body&& body) {
    const cuda::DeviceGuard guard(device_);
    for (const Range& piece : pieces_) {
      cuda::copy_async(piece_offsets_.data(), offsets_ + piece.first, bytes_of(piece.count + 1), stream_);
      body(ListTask{.words = words_,
                    .num_nodes = num_nodes_,
                    .first_node = piece.first,
                    .num_lists = piece.count,
                    .offsets = piece_offsets_.data(),
                    .drop_self_loops = drop_self_loops_,
                    .drop_duplicates = drop_duplicates_});
    }
  }

  graph::KeyedWords words_;
  NodeId num_nodes_;
  bool drop_self_loops_, drop_duplicates_;
  Count* offsets_;
  Device device_;
  std::vector<Range> pieces_;
  Count most_nodes_ = 0, most_entries_ = 0;
  cuda::Array<Count> dropped_, piece_offsets_, piece_begins_;
  cuda::Buffer entries_;
  cuda::Stream stream_;
};

graph::NodeShare node_share(const comm::Machine& machine, Count nodes) {
  const Range own = share_of({0, nodes}, machine.rank(), machine.size());
  return {own.first, own.count, [&machine](Count sum) {
            std::vector<std::int64_t> sums(at(machine.size()), 0);
            const auto here = sums.begin() + machine.rank();
            *here = sum;
            machine.communicator().all_reduce(std::span(sums));
            return graph::NodeShare::Sums{.before = std::accumulate(sums.begin(), here, Count{0}),
                                          .total = std::accumulate(sums.begin(), sums.end(), Count{0})};
          }};
}

/// Offsets of the lists after the policies were applied; none if they drop nothing.
std::optional<HostArray<Count>> cleaned_offsets(const GenerateTask& task, ListMaker& lists) {
  std::int64_t dropped = 0;
  task.machine.together([&] { dropped = lists.count_dropped(); });
  task.machine.communicator().all_reduce(std::span(&dropped, 1));
  if (dropped == 0) return {};
  const Count nodes = task.spec.nodes;
  auto offsets = HostArray<Count>::create(task.machine, nodes + 1, name_of(plan::GraphTensor::indptr));
  task.machine.together([&] { lists.count_kept(offsets.data()); });
  graph::offsets_of_counts(node_share(task.machine, nodes), offsets.data(), task.pool);
  task.machine.barrier();
  return offsets;
}

void fill_ids_and_degrees(const GenerateTask& task, const GraphRegions& regions, Range nodes) {
  const Count* const indptr = regions.indptr.data();
  task.pool.parallel_for(nodes.count, kNodesPerPiece, [&](Count begin, Count end) {
    const NodeId first = nodes.first + begin, last = nodes.first + end;
    regions.original_ids.visit([&](auto* ids) {
      using Id = std::remove_pointer_t<decltype(ids)>;
      std::iota(ids + first, ids + last, static_cast<Id>(first));
    });
    if (!regions.sizes.in_degrees) return;
    for (NodeId v = first; v < last; ++v)
      regions.in_degrees.data()[v] = static_cast<std::int32_t>(indptr[v + 1] - indptr[v]);
  });
}

/// Makes the data of all nodes on CPU threads: each rank makes a share, the first one also the splits.
void fill_nodes(const GenerateTask& task, const GraphRegions& regions) {
  const Range own = share_of({0, task.spec.nodes}, task.machine.rank(), task.machine.size());
  fill_ids_and_degrees(task, regions, own);
  graph::random_labels(task.spec, own.first, regions.labels.span().subspan(at(own.first), at(own.count)),
                       task.pool);
  if (task.machine.rank() > 0) return;
  graph::make_splits(
      task.spec, {.train = regions.train.data(), .valid = regions.valid.data(), .test = regions.test.data()},
      task.pool);
}

/// Each rank makes a share on CPU threads, from the lists of all ranks.
void fill_edge_weights(const GenerateTask& task, const GraphRegions& regions) {
  if (!regions.sizes.weights) return;
  const Range own = share_of({0, task.spec.nodes}, task.machine.rank(), task.machine.size());
  graph::make_edge_weights(task.spec,
                           {.first = own.first,
                            .count = own.count,
                            .indptr = regions.indptr.data(),
                            .indices = regions.indices.view()},
                           regions.weights.data(), task.pool);
}

/// Whether every edge has its opposite. In large graphs of this kind one of the first edges ends the search.
bool is_symmetric(const GraphView& graph, ThreadPool& pool) {
  std::atomic<bool> asymmetric{false};
  graph.indices.visit([&](const auto* ids) {
    const auto has_opposite = [&](NodeId node, NodeId neighbor) {
      return std::binary_search(ids + graph.indptr[neighbor], ids + graph.indptr[neighbor + 1], node);
    };
    pool.parallel_for(graph.num_nodes, kNodesPerPiece, [&](Count begin, Count end) {
      for (NodeId v = begin; v < end && !asymmetric.load(std::memory_order_relaxed); ++v)
        for (Count e = graph.indptr[v]; e < graph.indptr[v + 1]; ++e)
          if (!has_opposite(v, ids[e])) asymmetric = true;
    });
  });
  return !asymmetric;
}

bool agree_on_symmetry(const GenerateTask& task, const GraphView& graph) {
  bool symmetric = false;
  task.machine.together([&] {
    if (task.machine.rank() == 0) symmetric = is_symmetric(graph, task.pool);
  });
  task.machine.communicator().broadcast(&symmetric, sizeof(symmetric), 0);
  return symmetric;
}

}  // namespace

void generate_lognormal(const GenerateTask& task, GraphState& state) {
  const comm::Machine& machine = task.machine;
  const Count nodes = task.spec.nodes;
  auto offsets = HostArray<Count>::create(machine, nodes + 1, name_of(plan::GraphTensor::indptr));
  graph::lognormal_indptr(task.spec, node_share(machine, nodes), offsets.data(), task.pool);
  machine.barrier();
  std::optional<ListMaker> lists;
  machine.together([&] { lists.emplace(task, offsets.data()); });
  std::optional<HostArray<Count>> cleaned = cleaned_offsets(task, *lists);
  HostArray<Count>& indptr = cleaned ? *cleaned : offsets;
  state.manifest.num_edges = indptr.data()[nodes];
  if (task.load.edge_ids && state.manifest.num_edges > 0)
    throw InputError(fmt::format("the graph \"{}\" has no edge ids", state.manifest.name));
  const plan::RegionSizes sizes = whole_sizes(state.manifest, task.load);
  state.regions.emplace(GraphRegions::create(machine, sizes, std::move(indptr)));
  const GraphRegions& regions = *state.regions;
  machine.together([&] {
    lists->start_writing(regions.indptr.data(), regions.indices);
    fill_nodes(task, regions);
    lists->finish_writing();
  });
  machine.together([&] { fill_edge_weights(task, regions); });
  state.manifest.undirected = agree_on_symmetry(task, regions.view());
}

}  // namespace strata::store
