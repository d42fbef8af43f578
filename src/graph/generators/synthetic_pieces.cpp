// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "strata/graph/synthetic.hpp"

namespace strata::graph {
namespace {

constexpr Count kNodesPerBlock = 1 << 14;
// weights are integers, so that their sums do not depend on the order
constexpr double kUnitWeight = 1 << 20;
constexpr double kMostSigmas = 6;

Count num_blocks(Count nodes) { return (nodes + kNodesPerBlock - 1) / kNodesPerBlock; }

/// Calls body(block, first node, end) for the blocks of a share.
template <typename Body>
void for_each_block(const NodeShare& share, ThreadPool& pool, Body&& body) {
  pool.parallel_for(num_blocks(share.count), 1, [&](Count begin, Count end) {
    for (Count block = begin; block < end; ++block) {
      const NodeId first = share.first + block * kNodesPerBlock;
      body(at(block), first, std::min(first + kNodesPerBlock, share.first + share.count));
    }
  });
}

/// Replaces the sum of each block by that of all blocks before it, including those of other shares. Returns
/// the sum of all blocks.
Count sums_before(std::vector<Count>& sums, const NodeShare& share) {
  Count own = 0;
  for (Count& sum : sums) own += std::exchange(sum, own);
  const NodeShare::Sums all = share.exchange(own);
  for (Count& sum : sums) sum += all.before;
  return all.total;
}

double standard_normal(const KeyedWords& words, NodeId node) {
  const std::uint64_t index = static_cast<std::uint64_t>(node) * 2;
  const double radius = std::sqrt(-2 * std::log(1 - words.unit(index)));  // Box and Muller
  return radius * std::cos(2 * std::numbers::pi * words.unit(index + 1));
}

Count degree_weight(const SyntheticSpec& spec, const KeyedWords& words, NodeId node) {
  const double z = std::clamp(standard_normal(words, node), -kMostSigmas, kMostSigmas);
  return static_cast<Count>(std::exp(spec.sigma * z) * kUnitWeight) + 1;
}

enum Mark : std::uint8_t { train, valid, test, none };

/// Cuts a keyed permutation of the nodes into the three splits.
std::vector<Mark> marks_of(const SyntheticSpec& spec, ThreadPool& pool) {
  std::vector<Mark> marks(at(spec.nodes), none);
  const std::uint64_t key = KeyedWords(spec.seed, Purpose::split)(0);
  const Count first_test = spec.train + spec.valid;
  pool.parallel_for(first_test + spec.test, kNodesPerBlock, [&](Count begin, Count end) {
    for (Count i = begin; i < end; ++i)
      marks[shuffled(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(spec.nodes), key)] =
          i < spec.train   ? train
          : i < first_test ? valid
                           : test;
  });
  return marks;
}

using MarkCounts = std::array<Count, 4>;

}  // namespace

void lognormal_indptr(const SyntheticSpec& spec, const NodeShare& share, Count* indptr, ThreadPool& pool) {
  const KeyedWords words(spec.seed, Purpose::degree);
  std::vector<Count> weights_before(at(num_blocks(share.count)));
  for_each_block(share, pool, [&](std::size_t block, NodeId first, NodeId end) {
    Count sum = 0;
    for (NodeId v = first; v < end; ++v) sum += indptr[v + 1] = degree_weight(spec, words, v);
    weights_before[block] = sum;
  });
  const auto total = static_cast<unsigned __int128>(sums_before(weights_before, share));
  const Count each = spec.edges >= spec.nodes ? 1 : 0;
  const auto rest = static_cast<unsigned __int128>(spec.edges - each * spec.nodes);
  const auto given_up_to = [&](Count weight) {
    return static_cast<Count>(rest * static_cast<unsigned __int128>(weight) / total);
  };
  for_each_block(share, pool, [&](std::size_t block, NodeId first, NodeId end) {
    Count weight = weights_before[block], given = given_up_to(weight);
    for (NodeId v = first; v < end; ++v) {
      weight += indptr[v + 1];
      const Count next = given_up_to(weight);
      indptr[v + 1] = std::min(each + next - given, spec.nodes);
      given = next;
    }
  });
  if (share.first == 0) indptr[0] = 0;
  offsets_of_counts(share, indptr, pool);
}

void offsets_of_counts(const NodeShare& share, Count* counts, ThreadPool& pool) {
  std::vector<Count> before(at(num_blocks(share.count)));
  for_each_block(share, pool, [&](std::size_t block, NodeId first, NodeId end) {
    Count sum = 0;
    for (NodeId v = first; v < end; ++v) sum += counts[v + 1];
    before[block] = sum;
  });
  sums_before(before, share);
  for_each_block(share, pool, [&](std::size_t block, NodeId first, NodeId end) {
    Count sum = before[block];
    for (NodeId v = first; v < end; ++v) counts[v + 1] = sum += counts[v + 1];
  });
}

void make_edge_weights(const SyntheticSpec& spec, const NodeLists& lists, float* weights, ThreadPool& pool) {
  const WeightFormula weight{.words = KeyedWords(spec.seed, Purpose::weight), .kind = spec.weights};
  lists.indices.visit([&](const auto* indices) {
    pool.parallel_for(lists.count, kNodesPerBlock, [&](Count begin, Count end) {
      for (NodeId v = lists.first + begin; v < lists.first + end; ++v)
        for (Count e = lists.indptr[v]; e < lists.indptr[v + 1]; ++e) weights[e] = weight(indices[e], v);
    });
  });
}

void random_labels(const SyntheticSpec& spec, NodeId first, std::span<std::int32_t> labels,
                   ThreadPool& pool) {
  const KeyedWords words(spec.seed, Purpose::label);
  pool.parallel_for(std::ssize(labels), kNodesPerBlock, [&](Count begin, Count end) {
    for (Count i = begin; i < end; ++i)
      labels[at(i)] = static_cast<std::int32_t>(words.unit(static_cast<std::uint64_t>(first + i)) *
                                                static_cast<double>(spec.classes));
  });
}

void make_splits(const SyntheticSpec& spec, const SplitPlaces& places, ThreadPool& pool) {
  const std::vector<Mark> marks = marks_of(spec, pool);
  const NodeShare nodes = NodeShare::all(spec.nodes);
  std::vector<MarkCounts> before(at(num_blocks(spec.nodes)));
  for_each_block(nodes, pool, [&](std::size_t block, NodeId first, NodeId end) {
    MarkCounts counts{};
    for (NodeId v = first; v < end; ++v) ++counts[marks[at(v)]];
    before[block] = counts;
  });
  MarkCounts sum{};
  for (MarkCounts& block : before)
    for (std::size_t mark = 0; mark < sum.size(); ++mark) sum[mark] += std::exchange(block[mark], sum[mark]);
  const std::array<NodeId*, 3> out = {places.train, places.valid, places.test};
  for_each_block(nodes, pool, [&](std::size_t block, NodeId first, NodeId end) {
    MarkCounts next = before[block];
    for (NodeId v = first; v < end; ++v) {
      const Mark mark = marks[at(v)];
      if (mark != none) out[mark][next[mark]++] = v;
    }
  });
}

}  // namespace strata::graph
