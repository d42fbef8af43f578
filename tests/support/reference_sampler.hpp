// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::test {

/// A graph in plain vectors; ids are global ids.
struct PlainGraph {
  std::vector<Count> indptr{0};
  std::vector<NodeId> indices;
  std::vector<EdgeId> edge_ids;
  std::vector<float> weights;
  std::vector<NodeId> original_ids;
  RelationId relation = 0;  ///< store::Relation::number
  /// [edges] ascending within each list, of a graph of several relations; empty: all are of `relation`.
  std::vector<RelationId> relations = {};
  int num_relations = 1;

  Count num_nodes() const { return static_cast<Count>(original_ids.size()); }
  Count degree(NodeId v) const { return indptr[at(v) + 1] - indptr[at(v)]; }
};

struct RandomGraphOptions {
  Count num_nodes = 1000;
  Count mean_degree = 8;  ///< degrees are skewed; one node in eight is isolated
  Count hub_degree = 0;   ///< of the middle node
  std::uint64_t seed = 1;
};

/// With isolated nodes, self-loops and parallel edges; with weights that are 0, equal, tiny and huge.
/// Original ids equal global ids, edge ids are shuffled.
PlainGraph random_graph(const RandomGraphOptions& options);

/// The same graph under other global ids; original ids, edge ids and the order of the lists stay.
PlainGraph renumbered(const PlainGraph& graph, std::uint64_t seed);

/// The same graph with relations, drawn for each edge; every eighth node's edges are all of one. Lists are
/// ordered anew.
PlainGraph typed(const PlainGraph& graph, int num_relations, std::uint64_t seed);

/// Global ids by original id.
std::vector<NodeId> global_ids(const PlainGraph& graph);

struct ViewOptions {
  NodeId first = 0, last = -1;  ///< the machine's nodes; -1: to the end
  bool wide = false;            ///< ids are stored as i64
  Device device = {};
  bool pinned = false;  ///< lists lie in host memory, for a GPU
  // Copies of some elements and lists lie elsewhere on the GPU, as if several shared them; the arrays
  // themselves are then wrong there.
  int segments = 0;                      ///< of indptr, each divided
  struct Copied {                        ///< lists, chosen at random
    double replicated = 0, striped = 0;  ///< 1 striped: all, as they lie
  };
  std::optional<Copied> copied = {};
};

/// Copies a range of a graph into a GraphView's form on a device; an owner.
class ViewOwner {
 public:
  ViewOwner(const PlainGraph& graph, const ViewOptions& options);
  const store::GraphView& view() const { return view_; }

 private:
  template <typename T>
  const T* keep(std::span<const T> values, cuda::Memory memory);
  template <typename T>
  const T* keep(std::span<const T> values) {
    return keep(values, cuda::memory_on(stream_.device()));
  }
  IdSpan keep_ids(std::span<const std::int64_t> values, bool wide);
  const Count* keep_indptr(std::span<const Count> values, tensor::ArrayStrata& copies);
  /// An array of the lists' entries.
  template <typename T>
  const T* keep_entries(std::span<const T> values, store::CachedEntries& copies);
  IdSpan keep_entry_ids(std::span<const std::int64_t> values, store::CachedEntries& copies);
  store::SublistsView keep_sublists(const PlainGraph& graph, NodeId first, NodeId last);
  void choose_lists(std::span<const Count> indptr);
  cuda::Memory memory_of_lists() const;

  ViewOptions options_;
  enum class Tier : std::uint8_t { replicated, striped, host };
  std::vector<Tier> tier_of_entry_;  // empty: no list has a copy
  store::AdjacencyCacheView lists_;
  cuda::Stream stream_;
  std::vector<cuda::Buffer> buffers_;
  store::GraphView view_;
};

/// A Block in plain vectors, wherever it lay.
struct PlainBlock {
  Count num_dst = 0;
  std::vector<Count> indptr = {};
  std::vector<std::int32_t> indices = {};
  std::vector<EdgeId> edge_ids = {};
  std::vector<Count> transposed_indptr = {};
  std::vector<std::int32_t> transposed_indices = {};
  std::vector<NodeId> src_nodes = {}, src_original_ids = {};
  std::vector<std::int32_t> src_in_degrees = {};
  std::vector<NodeId> sorted_inputs = {};  // of the input layer, if asked for
  std::vector<std::int32_t> sorted_positions = {};
};

/// Copies the blocks once `stream` has done what it was given.
std::vector<PlainBlock> plain_blocks(const sampling::MiniBatch& batch, const cuda::Stream& stream);

/// What the sampler promises, computed as plainly as it can be said. With everything that options ask for.
std::vector<PlainBlock> reference_blocks(const PlainGraph& graph, std::span<const NodeId> seeds,
                                         const sampling::SamplerOptions& options, const BatchKey& key);

void expect_equal(std::span<const PlainBlock> actual, std::span<const PlainBlock> expected);

/// A sampled edge, named so that it is the same under every partition.
struct SampledEdge {
  int hop;
  NodeId dst_original;
  EdgeId edge;
  auto operator<=>(const SampledEdge&) const = default;
};
std::set<SampledEdge> sampled_edges(std::span<const PlainBlock> blocks);

/// `count` distinct nodes of [first, last), in random order.
std::vector<NodeId> random_nodes(Count count, NodeId first, NodeId last, std::uint64_t seed);

}  // namespace strata::test
