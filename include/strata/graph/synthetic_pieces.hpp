// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "strata/graph/synthetic.hpp"
#include "strata/graph/synthetic_formulas.hpp"
#include "strata/util/thread_pool.hpp"

/// What generate() is made of, for those who put a synthetic graph straight into memory of their own. All
/// results are the same for every number of threads and shares.
namespace strata::graph {

/// Throws InputError for a direction that the kind cannot have.
void check_direction(const SyntheticSpec& spec, const ReadOptions& options);

/// Throws OutOfMemory unless `wanted_bytes` of host memory are free.
void check_room(const SyntheticSpec& spec, double wanted_bytes);

/// The nodes that one of several processes works on. They all call the same functions, each for its own
/// share; the shares follow one another and cover all nodes.
struct NodeShare {
  struct Sums {
    Count before = 0;  ///< sum over the shares before this one
    Count total = 0;   ///< and over all of them
  };
  NodeId first = 0;
  Count count = 0;
  std::function<Sums(Count own)> exchange;  ///< called by all of them at once

  static NodeShare all(Count nodes) {
    return {0, nodes, [](Count own) { return Sums{.before = 0, .total = own}; }};
  }
};

/// Degrees of kind=lognormal as offsets: one edge a node, where there are enough, and the others in
/// proportion to weights. The sum is exact, but for hubs that would have more neighbors than there are
/// nodes.
///
/// indptr  [nodes + 1], shared by all; each writes the entries after its own nodes, the first one entry 0 too
void lognormal_indptr(const SyntheticSpec& spec, const NodeShare& share, Count* indptr, ThreadPool& pool);

/// Turns counts into offsets, in place: counts[v + 1] holds node v's count before, the end of its range
/// after.
void offsets_of_counts(const NodeShare& share, Count* counts, ThreadPool& pool);

/// Lists of in-neighbors of nodes [first, first + count): node v's at indices[indptr[v] .. indptr[v + 1]).
struct NodeLists {
  NodeId first = 0;
  Count count = 0;
  const Count* indptr = nullptr;
  IdSpan indices;
};

/// weights[e] of each entry e of the lists. REQUIRES: spec.weights is not none.
void make_edge_weights(const SyntheticSpec& spec, const NodeLists& lists, float* weights, ThreadPool& pool);

/// Labels of nodes [first, first + labels.size()) of the kinds rmat and lognormal.
void random_labels(const SyntheticSpec& spec, NodeId first, std::span<std::int32_t> labels, ThreadPool& pool);

/// Where the ids of each split go, ascending; as many as the spec says. Takes a byte a node for a while.
struct SplitPlaces {
  NodeId *train = nullptr, *valid = nullptr, *test = nullptr;
};
void make_splits(const SyntheticSpec& spec, const SplitPlaces& places, ThreadPool& pool);

/// Means of the classes' features and how much nodes differ from them; empty for kinds whose features are
/// random.
///
/// All features have variance 1 or so, whatever the noise: two class means are sqrt(2 cols) apart on average,
/// and noise 1 blurs by half of that.
struct ClassMeans {
  std::vector<float> values;  ///< [classes, features], or empty
  float blur = 0;
};
ClassMeans class_means(const SyntheticSpec& spec);

/// `means` must live as long as the formula is used.
FeatureFormula feature_formula(const SyntheticSpec& spec, const ClassMeans& means);

}  // namespace strata::graph
