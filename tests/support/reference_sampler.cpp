// SPDX-License-Identifier: Apache-2.0
#include "support/reference_sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "support/reference_choices.hpp"

namespace strata::test {
namespace {

/// A sequence of random numbers; the same everywhere, unlike those of the standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix64(seed)) {}
  Count below(Count bound) { return static_cast<Count>(next() % static_cast<std::uint64_t>(bound)); }
  std::uint64_t next() { return mix64(state_++); }

 private:
  std::uint64_t state_;
};

template <typename T>
void shuffle(std::vector<T>& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[at(random.below(static_cast<Count>(i)))]);
}

template <typename T>
std::vector<T> permutation(Count size, Random& random) {
  std::vector<T> result(at(size));
  std::iota(result.begin(), result.end(), T{0});
  shuffle(result, random);
  return result;
}

template <typename T>
std::vector<T> to_host(const T* data, Count count, const cuda::Stream& stream) {
  std::vector<T> values(data == nullptr ? 0 : at(count));
  cuda::copy_async(values.data(), data, values.size() * sizeof(T), stream);
  stream.synchronize();
  return values;
}

/// Lists of zeros, of equal weights, and of mixed ones.
void add_weights(PlainGraph& graph, Random& random) {
  for (NodeId v = 0; v < graph.num_nodes(); ++v) {
    const Count list = random.below(8);
    for (Count j = 0; j < graph.degree(v); ++j) {
      const Count kind = random.below(8);
      const float plain = static_cast<float>(1 + random.below(1000)) / 64;
      graph.weights.push_back(list == 0 || kind == 0   ? 0.0f
                              : list == 1              ? 0.3f
                              : kind == 1 && list == 2 ? plain * 0x1.0p120f
                              : kind == 1 && list == 3 ? plain * 0x1.0p-140f
                                                       : plain);
    }
  }
}

}  // namespace

PlainGraph random_graph(const RandomGraphOptions& options) {
  Random random(options.seed);
  PlainGraph graph;
  const Count n = options.num_nodes;
  for (NodeId v = 0; v < n; ++v) {
    Count degree = random.below(2 * options.mean_degree + 1);
    if (random.below(16) == 0) degree *= 8;
    if (random.below(8) == 0) degree = 0;
    if (options.hub_degree > 0 && v == n / 2) degree = options.hub_degree;
    for (Count j = 0; j < degree; ++j) {
      const Count kind = random.below(16);
      const bool parallel = kind == 0 && j > 0;
      graph.indices.push_back(parallel ? graph.indices.back() : kind == 1 ? v : random.below(n));
    }
    graph.indptr.push_back(static_cast<Count>(graph.indices.size()));
    graph.original_ids.push_back(v);
  }
  graph.edge_ids = permutation<EdgeId>(static_cast<Count>(graph.indices.size()), random);
  add_weights(graph, random);
  return graph;
}

PlainGraph typed(const PlainGraph& graph, int num_relations, std::uint64_t seed) {
  Random random(seed);
  PlainGraph result = graph;
  result.num_relations = num_relations;
  result.relations.resize(graph.indices.size());
  for (NodeId v = 0; v < graph.num_nodes(); ++v) {
    const Count begin = graph.indptr[at(v)], degree = graph.degree(v);
    const bool one = random.below(8) == 0;
    std::vector<std::pair<Count, Count>> order;  // relation and entry
    for (Count j = 0; j < degree; ++j)
      order.emplace_back(one && j > 0 ? order.front().first : random.below(num_relations), begin + j);
    std::ranges::sort(order);
    for (Count j = 0; j < degree; ++j) {
      const auto [relation, from] = order[at(j)];
      result.relations[at(begin + j)] = static_cast<RelationId>(relation);
      result.indices[at(begin + j)] = graph.indices[at(from)];
      result.edge_ids[at(begin + j)] = graph.edge_ids[at(from)];
      if (!graph.weights.empty()) result.weights[at(begin + j)] = graph.weights[at(from)];
    }
  }
  return result;
}

std::vector<NodeId> global_ids(const PlainGraph& graph) {
  std::vector<NodeId> result(graph.original_ids.size());
  for (std::size_t v = 0; v < result.size(); ++v) result[at(graph.original_ids[v])] = static_cast<NodeId>(v);
  return result;
}

PlainGraph renumbered(const PlainGraph& graph, std::uint64_t seed) {
  Random random(seed);
  const auto old_id = permutation<NodeId>(graph.num_nodes(), random);
  std::vector<NodeId> new_id(old_id.size());
  for (std::size_t v = 0; v < old_id.size(); ++v) new_id[at(old_id[v])] = static_cast<NodeId>(v);
  PlainGraph result;
  result.num_relations = graph.num_relations;
  for (const NodeId old : old_id) {
    for (Count e = graph.indptr[at(old)]; e < graph.indptr[at(old) + 1]; ++e) {
      result.indices.push_back(new_id[at(graph.indices[at(e)])]);
      result.edge_ids.push_back(graph.edge_ids[at(e)]);
      result.weights.push_back(graph.weights[at(e)]);
      if (!graph.relations.empty()) result.relations.push_back(graph.relations[at(e)]);
    }
    result.indptr.push_back(static_cast<Count>(result.indices.size()));
    result.original_ids.push_back(graph.original_ids[at(old)]);
  }
  return result;
}

template <typename T>
const T* ViewOwner::keep(std::span<const T> values, cuda::Memory memory) {
  cuda::Buffer buffer(memory, std::max<std::size_t>(values.size_bytes(), 1), "test graph", stream_.device());
  cuda::copy_async(buffer.data(), values.data(), values.size_bytes(), stream_);
  stream_.synchronize();
  buffers_.push_back(std::move(buffer));
  return static_cast<const T*>(buffers_.back().data());
}

IdSpan ViewOwner::keep_ids(std::span<const std::int64_t> values, bool wide) {
  const auto size = static_cast<Count>(values.size());
  if (wide) return {keep(values), size, true};
  const std::vector<std::int32_t> narrow(values.begin(), values.end());
  return {keep(std::span(narrow)), size, false};
}

namespace {

constexpr std::size_t kGpus = 3;

/// Rows of stripes, dealt to GPUs.
template <typename T>
class StripedRows {
 public:
  explicit StripedRows(const tensor::Stripes& stripes) : stripes_(stripes), of_gpus_(kGpus) {}
  void push(const T& value) {
    const tensor::StripeLocation place = tensor::locate_stripe(size_++, stripes_);
    std::vector<T>& rows = of_gpus_[at(place.gpu)];
    rows.resize(std::max(rows.size(), at(place.row) + 1));
    rows[at(place.row)] = value;
  }
  Count size() const { return size_; }
  std::span<const T> of_gpu(std::size_t gpu) const { return of_gpus_[gpu]; }

 private:
  tensor::Stripes stripes_;
  std::vector<std::vector<T>> of_gpus_;
  Count size_ = 0;
};

template <typename T>
void poison(T& value) {
  std::memset(&value, 0xC7, sizeof(T));
}

}  // namespace

cuda::Memory ViewOwner::memory_of_lists() const {
  return options_.pinned ? cuda::Memory::pinned : cuda::memory_on(stream_.device());
}

const Count* ViewOwner::keep_indptr(std::span<const Count> values, tensor::ArrayStrata& copies) {
  if (options_.segments == 0) return keep(values, memory_of_lists());
  const auto size = static_cast<Count>(values.size());
  copies.stripes = tensor::Stripes::of(32, kGpus);
  std::vector<Count> replicated, rest(values.begin(), values.end());
  StripedRows<Count> striped(copies.stripes);
  std::vector<tensor::SegmentLayout> segments;
  for (int s = 0; s < options_.segments; ++s) {
    const Count first = size * s / options_.segments, end = size * (s + 1) / options_.segments;
    const Count replicated_end = first + (end - first) * 2 / 5, striped_end = first + (end - first) * 7 / 10;
    segments.push_back(
        {.first_row = first,
         .end = {replicated_end, striped_end, end},
         .shift = {static_cast<Count>(replicated.size()) - first, striped.size() - replicated_end, 0}});
    for (Count i = first; i < striped_end; ++i) {
      poison(rest[at(i)]);
      if (i < replicated_end) {
        replicated.push_back(values[at(i)]);
      } else {
        striped.push(values[at(i)]);
      }
    }
  }
  copies.num_segments = options_.segments;
  copies.only = segments.front();
  copies.segments = keep(std::span<const tensor::SegmentLayout>(segments));
  copies.replicated = keep(std::span<const Count>(replicated));
  for (std::size_t g = 0; g < kGpus; ++g) copies.stripe_data[g] = keep(striped.of_gpu(g));
  return keep(std::span<const Count>(rest), memory_of_lists());
}

// The directory as its description says it, word for word.
void ViewOwner::choose_lists(std::span<const Count> indptr) {
  if (!options_.copied) return;
  const Count num_nodes = std::ssize(indptr) - 1;
  std::vector<store::AdjacencyCacheView::Group> replicated, striped;
  Count num_replicated = 0, num_striped = 0;
  Random random(17);
  for (Count v = 0; v < num_nodes; ++v) {
    if (v % store::AdjacencyCacheView::kGroupNodes == 0) {
      replicated.push_back(static_cast<std::uint64_t>(num_replicated)
                           << store::AdjacencyCacheView::kGroupNodes);
      striped.push_back(static_cast<std::uint64_t>(num_striped) << store::AdjacencyCacheView::kGroupNodes);
    }
    const double draw = static_cast<double>(random.below(1 << 20)) / (1 << 20);
    const Tier tier = draw < options_.copied->replicated                              ? Tier::replicated
                      : draw < options_.copied->replicated + options_.copied->striped ? Tier::striped
                                                                                      : Tier::host;
    const Count degree = indptr[at(v + 1)] - indptr[at(v)];
    tier_of_entry_.insert(tier_of_entry_.end(), at(degree), tier);
    const std::uint64_t bit = std::uint64_t{1} << v % store::AdjacencyCacheView::kGroupNodes;
    if (tier == Tier::replicated) replicated.back() |= bit, num_replicated += degree;
    if (tier == Tier::striped) striped.back() |= bit, num_striped += degree;
  }
  if (options_.copied->striped == 1) return;  // positions stay as they are
  const Count num_entries = std::ssize(tier_of_entry_);
  lists_ = {.replicated = keep(std::span<const store::AdjacencyCacheView::Group>(replicated)),
            .striped = options_.copied->striped > 0
                           ? keep(std::span<const store::AdjacencyCacheView::Group>(striped))
                           : nullptr,
            .first_replicated = num_entries,
            .first_striped = num_entries + num_replicated};
}

template <typename T>
const T* ViewOwner::keep_entries(std::span<const T> values, store::CachedEntries& copies) {
  if (!options_.copied) return keep(values, memory_of_lists());
  copies.stripes = tensor::Stripes::of(32, kGpus);
  std::vector<T> replicated, rest(values.begin(), values.end());
  StripedRows<T> striped(copies.stripes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tier_of_entry_[i] == Tier::host) continue;
    poison(rest[i]);
    if (tier_of_entry_[i] == Tier::replicated) {
      replicated.push_back(values[i]);
    } else {
      striped.push(values[i]);
    }
  }
  copies.first = options_.copied->striped == 1 ? 0 : std::ssize(values);
  copies.num_replicated = std::ssize(replicated);
  copies.replicated = keep(std::span<const T>(replicated));
  for (std::size_t g = 0; g < kGpus; ++g) copies.stripe_data[g] = keep(striped.of_gpu(g));
  return keep(std::span<const T>(rest), memory_of_lists());
}

IdSpan ViewOwner::keep_entry_ids(std::span<const std::int64_t> values, store::CachedEntries& copies) {
  const auto size = static_cast<Count>(values.size());
  if (options_.wide) return {keep_entries(values, copies), size, true};
  const std::vector<std::int32_t> narrow(values.begin(), values.end());
  return {keep_entries(std::span<const std::int32_t>(narrow), copies), size, false};
}

store::SublistsView ViewOwner::keep_sublists(const PlainGraph& graph, NodeId first, NodeId last) {
  if (graph.relations.empty()) return {};
  std::vector<Count> firsts{0}, begins;
  std::vector<std::int32_t> nodes;
  std::vector<RelationId> relations;
  Count most = 0;
  for (NodeId v = first; v < last; ++v) {
    for (Count e = graph.indptr[at(v)]; e < graph.indptr[at(v) + 1]; ++e) {
      if (std::ssize(nodes) > firsts.back() && relations.back() == graph.relations[at(e)]) continue;
      begins.push_back(e - graph.indptr[at(first)]);
      nodes.push_back(static_cast<std::int32_t>(v - first));
      relations.push_back(graph.relations[at(e)]);
    }
    most = std::max(most, std::ssize(nodes) - firsts.back());
    firsts.push_back(std::ssize(nodes));
  }
  begins.push_back(graph.indptr[at(last)] - graph.indptr[at(first)]);
  return {.count = std::ssize(nodes),
          .most_per_node = most,
          .num_relations = graph.num_relations,
          .first = keep(std::span<const Count>(firsts)),
          .begins = keep(std::span<const Count>(begins)),
          .nodes = keep(std::span<const std::int32_t>(nodes)),
          .relations = keep(std::span<const RelationId>(relations))};
}

ViewOwner::ViewOwner(const PlainGraph& graph, const ViewOptions& options) : options_(options) {
  if (options.device.is_cuda()) stream_ = cuda::Stream(options.device);
  const NodeId last = options.last < 0 ? graph.num_nodes() : options.last;
  const Count first_edge = graph.indptr[at(options.first)], last_edge = graph.indptr[at(last)];
  std::vector<Count> indptr(graph.indptr.begin() + options.first, graph.indptr.begin() + last + 1);
  for (Count& entry : indptr) entry -= first_edge;
  std::vector<std::int32_t> degrees;
  for (NodeId v = 0; v < graph.num_nodes(); ++v)
    degrees.push_back(static_cast<std::int32_t>(graph.degree(v)));
  choose_lists(indptr);
  store::GraphView::Copies copies{
      .indptr = {}, .lists = lists_, .indices = {}, .edge_ids = {}, .weights = {}};
  const auto edges = [&](const std::vector<std::int64_t>& values, store::CachedEntries& strata) {
    return keep_entry_ids(std::span(values).subspan(at(first_edge), at(last_edge - first_edge)), strata);
  };
  view_ = {{.device = options.device,
            .num_nodes = graph.num_nodes(),
            .first_node = options.first,
            .num_local = last - options.first,
            .original_ids = keep_ids(graph.original_ids, options.wide),
            .in_degrees = keep(std::span<const std::int32_t>(degrees))},
           {.indptr = keep_indptr(indptr, copies.indptr),
            .indices = edges(graph.indices, copies.indices),
            .edge_ids = edges(graph.edge_ids, copies.edge_ids),
            .weights = graph.weights.empty()
                           ? nullptr
                           : keep_entries(std::span<const float>(graph.weights)
                                              .subspan(at(first_edge), at(last_edge - first_edge)),
                                          copies.weights)}};
  view_.number = graph.relation;
  view_.sublists = keep_sublists(graph, options.first, last);
  view_.copies = copies;
}

namespace {

/// The lists of a block with a stride, packed.
void pack_strided(const sampling::Block& b, const cuda::Stream& stream, PlainBlock& out) {
  const auto counts = to_host(b.counts, b.num_dst, stream);
  const auto indices = to_host(b.indices, b.num_dst * b.stride, stream);
  const auto edge_ids = to_host(b.edge_ids, b.num_dst * b.stride, stream);
  out.indptr = {0};
  for (Count i = 0; i < b.num_dst; ++i) {
    ASSERT_LE(counts[at(i)], b.stride);
    for (Count j = 0; j < counts[at(i)]; ++j) {
      const std::size_t entry = at(i * b.stride + j);
      out.indices.push_back(indices[entry]);
      if (!edge_ids.empty()) out.edge_ids.push_back(edge_ids[entry]);
    }
    out.indptr.push_back(static_cast<Count>(out.indices.size()));
  }
  EXPECT_EQ(out.indptr.back(), b.num_edges);
}

}  // namespace

std::vector<PlainBlock> plain_blocks(const sampling::MiniBatch& batch, const cuda::Stream& stream) {
  std::vector<PlainBlock> result;
  for (const sampling::Block& b : batch.blocks) {
    PlainBlock& block = result.emplace_back();
    block.num_dst = b.num_dst;
    if (b.stride > 0) {
      pack_strided(b, stream, block);
    } else {
      block.indptr = to_host(b.indptr, b.num_dst + 1, stream);
      block.indices = to_host(b.indices, b.num_edges, stream);
      block.edge_ids = to_host(b.edge_ids, b.num_edges, stream);
    }
    block.transposed_indptr = to_host(b.transposed_indptr, b.num_src + 1, stream);
    block.transposed_indices = to_host(b.transposed_indices, b.num_edges, stream);
    block.src_nodes = to_host(b.src_nodes, b.num_src, stream);
    block.src_original_ids = to_host(b.src_original_ids, b.num_src, stream);
    block.src_in_degrees = to_host(b.src_in_degrees, b.num_src, stream);
  }
  result.front().sorted_inputs = to_host(batch.sorted_inputs, batch.num_inputs(), stream);
  result.front().sorted_positions = to_host(batch.sorted_positions, batch.num_inputs(), stream);
  return result;
}

namespace {

/// Positions of a node's chosen in-neighbors within its list.
std::vector<Count> chosen_positions(Count degree, int fanout, std::uint64_t key) {
  std::vector<Count> result;
  const bool all = fanout < 0 || degree <= fanout;
  for (Count j = 0; j < (all ? degree : fanout); ++j) {
    Count position = j;
    if (!all && fanout <= Subset::kMaxCount) {
      position = Subset(degree, fanout, key).draw(static_cast<std::uint32_t>(j));
      if (std::ranges::count(result, position) > 0) position = degree - fanout + j;
    } else if (!all) {
      position = static_cast<Count>(
          shuffled(static_cast<std::uint64_t>(j), static_cast<std::uint64_t>(degree), key));
    }
    result.push_back(position);
  }
  return result;
}

void add_transpose(PlainBlock& block) {
  std::vector<std::vector<std::int32_t>> out_edges(block.src_nodes.size());
  for (Count dst = 0; dst < block.num_dst; ++dst) {
    for (Count e = block.indptr[at(dst)]; e < block.indptr[at(dst) + 1]; ++e) {
      out_edges[at(block.indices[at(e)])].push_back(static_cast<std::int32_t>(dst));
    }
  }
  block.transposed_indptr.push_back(0);
  for (const auto& list : out_edges) {
    block.transposed_indices.insert(block.transposed_indices.end(), list.begin(), list.end());
    block.transposed_indptr.push_back(static_cast<Count>(block.transposed_indices.size()));
  }
}

void add_sorted_inputs(PlainBlock& input) {
  std::vector<std::pair<NodeId, std::int32_t>> order;
  for (const NodeId v : input.src_nodes) order.emplace_back(v, static_cast<std::int32_t>(order.size()));
  std::ranges::sort(order);
  for (const auto& [node, position] : order) {
    input.sorted_inputs.push_back(node);
    input.sorted_positions.push_back(position);
  }
}

std::vector<Count> reference_positions(const Choice& c, const sampling::SamplerOptions& options) {
  const auto bits = node_key(c.key, RandomUse::sample, c.hop, c.graph.original_ids[at(c.node)], c.relation);
  const bool plain = options.method == sampling::Method::uniform && !options.replace;
  if (plain || c.fanout < 0) return chosen_positions(c.degree(), c.fanout, bits);
  if (options.method == sampling::Method::uniform) return replacing_positions(c);
  if (options.method == sampling::Method::labor) return labor_positions(c, options.layer_dependent);
  return options.replace ? weighted_replacing_positions(c) : weighted_positions(c);
}

/// One for each relation that the node has neighbors over.
std::vector<Choice> choices_of(const PlainGraph& graph, NodeId v, const sampling::SamplerOptions& options,
                               const BatchKey& key, std::uint32_t hop) {
  const Count begin = graph.indptr[at(v)], end = graph.indptr[at(v) + 1];
  if (graph.relations.empty())
    return {{graph, v, options.fanouts[hop], key, hop, begin, end, graph.relation}};
  std::vector<Choice> choices;
  for (Count e = begin; e < end; ++e) {
    const RelationId relation = graph.relations[at(e)];
    const int fanout =
        options.relation_fanouts.empty() ? options.fanouts[hop] : options.relation_fanouts[hop][relation];
    if (choices.empty() || choices.back().relation != relation)
      choices.push_back({graph, v, fanout, key, hop, e, e, relation});
    choices.back().end = e + 1;
  }
  return choices;
}

/// The first `passed_over` nodes of the frontier get no neighbors.
PlainBlock reference_hop(const PlainGraph& graph, const std::vector<NodeId>& frontier,
                         std::size_t passed_over, const sampling::SamplerOptions& options,
                         const BatchKey& key, std::uint32_t hop) {
  PlainBlock block;
  block.num_dst = static_cast<Count>(frontier.size());
  block.indptr.assign(1 + passed_over, 0);
  std::vector<NodeId> neighbors;
  for (const NodeId v : std::span(frontier).subspan(passed_over)) {
    for (const Choice& choice : choices_of(graph, v, options, key, hop)) {
      for (const Count position : reference_positions(choice, options)) {
        const std::size_t e = at(choice.begin + position);
        neighbors.push_back(graph.indices[e]);
        block.edge_ids.push_back(graph.edge_ids[e]);
      }
    }
    block.indptr.push_back(static_cast<Count>(neighbors.size()));
  }
  std::set<NodeId> fresh(neighbors.begin(), neighbors.end());
  for (const NodeId v : frontier) fresh.erase(v);
  block.src_nodes = frontier;
  block.src_nodes.insert(block.src_nodes.end(), fresh.begin(), fresh.end());
  std::map<NodeId, std::int32_t> local;
  for (const NodeId v : block.src_nodes) local.emplace(v, static_cast<std::int32_t>(local.size()));
  for (const NodeId u : neighbors) block.indices.push_back(local.at(u));
  return block;
}

}  // namespace

std::vector<PlainBlock> reference_blocks(const PlainGraph& graph, std::span<const NodeId> seeds,
                                         const sampling::SamplerOptions& options, const BatchKey& key) {
  std::vector<PlainBlock> blocks;
  std::vector<NodeId> frontier(seeds.begin(), seeds.end());
  std::size_t passed_over = 0;
  for (std::size_t hop = 0; hop < options.fanouts.size(); ++hop) {
    PlainBlock block =
        reference_hop(graph, frontier, passed_over, options, key, static_cast<std::uint32_t>(hop));
    if (options.new_nodes_only) passed_over = frontier.size();
    frontier = block.src_nodes;
    if (hop < options.num_transposes()) add_transpose(block);
    if (!options.edge_ids) block.edge_ids.clear();
    for (const NodeId v : block.src_nodes) {
      block.src_original_ids.push_back(graph.original_ids[at(v)]);
      if (options.in_degrees) block.src_in_degrees.push_back(static_cast<std::int32_t>(graph.degree(v)));
    }
    blocks.insert(blocks.begin(), std::move(block));
  }
  if (options.sorted_inputs) add_sorted_inputs(blocks.front());
  return blocks;
}

void expect_equal(std::span<const PlainBlock> actual, std::span<const PlainBlock> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE("block " + std::to_string(i));
    const PlainBlock &a = actual[i], &b = expected[i];
    EXPECT_EQ(a.num_dst, b.num_dst);
    EXPECT_TRUE(a.indptr == b.indptr);
    EXPECT_TRUE(a.src_nodes == b.src_nodes)
        << a.src_nodes.size() << " and " << b.src_nodes.size() << " src nodes";
    EXPECT_TRUE(a.indices == b.indices);
    EXPECT_TRUE(a.edge_ids == b.edge_ids);
    EXPECT_TRUE(a.src_original_ids == b.src_original_ids);
    EXPECT_TRUE(a.src_in_degrees == b.src_in_degrees);
    EXPECT_TRUE(a.transposed_indptr == b.transposed_indptr);
    EXPECT_TRUE(a.transposed_indices == b.transposed_indices);
    EXPECT_TRUE(a.sorted_inputs == b.sorted_inputs);
    EXPECT_TRUE(a.sorted_positions == b.sorted_positions);
  }
}

std::set<SampledEdge> sampled_edges(std::span<const PlainBlock> blocks) {
  std::set<SampledEdge> result;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const PlainBlock& block = blocks[i];
    for (Count dst = 0; dst < block.num_dst; ++dst) {
      for (Count e = block.indptr[at(dst)]; e < block.indptr[at(dst) + 1]; ++e) {
        result.insert({static_cast<int>(blocks.size() - 1 - i), block.src_original_ids[at(dst)],
                       block.edge_ids[at(e)]});
      }
    }
  }
  return result;
}

std::vector<NodeId> random_nodes(Count count, NodeId first, NodeId last, std::uint64_t seed) {
  Random random(seed);
  std::vector<NodeId> nodes = permutation<NodeId>(last - first, random);
  nodes.resize(at(std::min(count, last - first)));
  for (NodeId& node : nodes) node += first;
  return nodes;
}

}  // namespace strata::test
