// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "strata/graph/synthetic.hpp"
#include "strata/graph/synthetic_formulas.hpp"
#include "strata/util/thread_pool.hpp"

/// The pieces of generate(), for callers that put a synthetic graph straight into memory of their own. All
/// results are the same for every number of threads and shares.
namespace strata::graph {

/// Throws InputError for a direction that the kind cannot have.
void check_direction(const SyntheticSpec& spec, const ReadOptions& options);

/// Throws OutOfMemory unless `wanted_bytes` of host memory are free.
void check_room(const SyntheticSpec& spec, double wanted_bytes);

/// The nodes that one of several processes works on. All processes call the same functions, each for its own
/// share; the shares follow one another and cover all nodes.
struct NodeShare {
  struct Sums {
    Count before = 0;  ///< sum of `own` over the shares before this one
    Count total = 0;   ///< sum of `own` over all shares
  };
  NodeId first = 0;
  Count count = 0;
  std::function<Sums(Count own)> exchange;  ///< called by all processes at once

  static NodeShare all(Count nodes) {
    return {0, nodes, [](Count own) { return Sums{.before = 0, .total = own}; }};
  }
};

/// Degrees of kind=lognormal as offsets: one edge per node if there are enough, and the others in proportion
/// to random weights. The sum is exact, except where a hub would have more neighbors than there are nodes.
///
/// indptr  [nodes + 1], shared by all processes; each writes the entries after its own nodes, and the first
/// one writes entry 0, too
void lognormal_indptr(const SyntheticSpec& spec, const NodeShare& share, Count* indptr, ThreadPool& pool);

/// Turns counts into offsets, in place. Before the call counts[v + 1] is the count of node v; after it, the
/// end of its range.
void offsets_of_counts(const NodeShare& share, Count* counts, ThreadPool& pool);

/// Lists of in-neighbors of nodes [first, first + count): node v's at indices[indptr[v] .. indptr[v + 1]).
struct NodeLists {
  NodeId first = 0;
  Count count = 0;
  const Count* indptr = nullptr;
  IdSpan indices;
};

/// Writes weights[e] of each entry e of the lists. REQUIRES: spec.weights is not none.
void make_edge_weights(const SyntheticSpec& spec, const NodeLists& lists, float* weights, ThreadPool& pool);

/// Draws labels of nodes [first, first + labels.size()), for the kinds rmat and lognormal.
void random_labels(const SyntheticSpec& spec, NodeId first, std::span<std::int32_t> labels, ThreadPool& pool);

/// Memory into which make_splits() writes the ids of each split, ascending; as many as the spec has. It takes
/// one byte per node meanwhile.
struct SplitPlaces {
  NodeId *train = nullptr, *valid = nullptr, *test = nullptr;
};
void make_splits(const SyntheticSpec& spec, const SplitPlaces& places, ThreadPool& pool);

/// The mean features of each class, and how much nodes differ from them; empty for kinds whose features are
/// random.
///
/// The variance of all features is about 1 for every noise. Two class means are sqrt(2 cols) apart on
/// average, and noise 1 blurs by half of that.
struct ClassMeans {
  std::vector<float> values;  ///< [classes, features], or empty
  float blur = 0;
};
ClassMeans class_means(const SyntheticSpec& spec);

/// `means` must live as long as the formula is used.
FeatureFormula feature_formula(const SyntheticSpec& spec, const ClassMeans& means);

}  // namespace strata::graph
