// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/util/random.hpp"
#include "strata/util/row_code.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

struct Graph;
struct ReadOptions;

/// The graph that "synthetic:KEY=VALUE,..." asks for; parse_synthetic() lists the keys.
struct SyntheticSpec {
  enum class Kind { sbm, rmat, lognormal, grid };
  enum class Weights { none, uniform, lognormal, half_normal };
  Kind kind = Kind::sbm;
  Count nodes = 0;
  Count edges = 0;  ///< directed entries of the CSC before duplicates are removed
  Count features = 0, classes = 0;
  DType dtype = DType::f32;
  Weights weights = Weights::none;  ///< of edges
  Count train = 0, valid = 0, test = 0;
  std::uint64_t seed = 0;
  double noise = 1;        ///< of features, in units of half the distance between two class means
  double homophily = 0.8;  ///< sbm: share of edges within a class
  double sigma = 1.2;      ///< lognormal: standard deviation of the logarithm of the degrees
  double a = 0.57, b = 0.19, c = 0.19;  ///< rmat: shares of three quadrants
  Count width = 0;                      ///< grid: nodes in a row
};

/// Keys (default in brackets; those of a preset may be overridden):
///
///     kind                sbm, rmat, lognormal or grid                                    [sbm]
///     nodes               [10000]
///     edges or degree     directed, before cleaning                                       [degree 20]
///     features            [32]
///     classes             [8]
///     dtype               f32, f16 or bf16                                                [f32]
///     weights             of edges: none, uniform (within (0, 1]), lognormal or half-normal [none]
///     noise               of the features                                                 [1]
///     train, valid, test  numbers of nodes, or shares where written with a point          [0.6, 0.2, 0.2]
///     seed                [0]
///     homophily           sbm                                                             [0.8]
///     sigma               lognormal                                                       [1.2]
///     a, b, c             rmat                                                            [0.57 0.19 0.19]
///     width               grid                           [about the square root of nodes]
///
/// A first entry without "=" names a preset: `products`, `reddit` or `papers100M` (lognormal graphs of the
/// shape of those datasets). If `nodes` is given, the preset's edges and splits are scaled with it. Throws
/// InputError for an unknown key, kind or preset (with the closest known one), and for a value out of range.
SyntheticSpec parse_synthetic(std::string_view text);

std::string synthetic_name(const SyntheticSpec& spec);  ///< name of the graph: "synthetic-sbm"

/// Counterpart of read_graph_digest(): the same for the same graph, however its text is written.
std::string digest_of(const SyntheticSpec& spec);

/// A whole graph, the same for every number of threads. Throws OutOfMemory before work begins if this host
/// has no room for the graph, and InputError for a direction that the kind cannot have.
Graph generate(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool);

/// A synthetic graph of planted communities that can be given instead of a partition directory. Parts are not
/// read but generated when they are opened, so each machine makes only its own parts.
///
/// The communities are the parts, which are ranges of equal length. An edge comes from its own part with
/// probability `within`, else from any other part. Degrees and neighbors are skewed as for lognormal graphs.
/// Original ids are global ids.
struct PlantedSpec {
  SyntheticSpec shape;
  int parts = 1;
  double within = 0.9;
};

/// Reads "parts=4,within=0.9,KEY=VALUE,..."; the other keys and presets are those of parse_synthetic().
/// Throws InputError for unknown keys and values out of range.
PlantedSpec parse_planted(std::string_view text);

std::string digest_of(const PlantedSpec& spec);  ///< as for a SyntheticSpec

/// The origin of parts: a partition directory, or formulas.
using PartsOrigin = std::variant<std::filesystem::path, PlantedSpec>;

std::string name_of(const PartsOrigin& parts);                 ///< "parts", or "planted"; for messages
std::string name_of_part(const PartsOrigin& parts, int part);  ///< "parts/part-00001.h5", or "planted part 1"

// The elements of synthetic graphs. Each is computed only from its index, with the same bits on CPU and GPU.
// If a product enters a sum, ieee::product() keeps compilers from fusing the two.

/// The use of a random word of the generators. Different purposes share no bits.
enum class Purpose : std::uint64_t { degree = 1, edge, member, label, feature, class_mean, split, weight };

/// Random words keyed by (seed, purpose, index): the stream of SplitMix64, read at any place.
class KeyedWords {
 public:
  KeyedWords(std::uint64_t seed, Purpose purpose)
      : base_(mix64(mix64(seed) + static_cast<std::uint64_t>(purpose))) {}
  STRATA_HOST_DEVICE std::uint64_t operator()(std::uint64_t index) const {
    return mix64(base_ + index * 0x9E3779B97F4A7C15ull);
  }
  STRATA_HOST_DEVICE double unit(std::uint64_t index) const { return unit_double((*this)(index)); }

 private:
  std::uint64_t base_;
};

/// The sum of four 16-bit uniforms minus its mean: nearly normal, with variance 65536^2 / 3.
STRATA_HOST_DEVICE inline std::int32_t sum_of_uniforms(std::uint64_t word) {
  return static_cast<std::int32_t>((word & 0xffff) + ((word >> 16) & 0xffff) + ((word >> 32) & 0xffff) +
                                   (word >> 48)) -
         131070;
}

/// Nearly normal with mean 0 and variance 1. Exact integer arithmetic, except for one product.
STRATA_HOST_DEVICE inline float near_normal(std::uint64_t word) {
  constexpr float kScale = 1.7320508f / 65536.0f;
  return ieee::product(static_cast<float>(sum_of_uniforms(word)), kScale);
}

/// Uniform with mean 0 and variance 1.
STRATA_HOST_DEVICE inline float centered_uniform(std::uint64_t word) {
  constexpr float kScale = 3.4641016f / 16777216.0f;
  return ieee::product(static_cast<float>(word >> 40) - 8388607.5f, kScale);
}

/// The features of a node: the blurred mean of its class if `class_means` are given, else random numbers. A
/// view.
struct FeatureFormula {
  KeyedWords words;
  Count cols = 0;
  const float* class_means = nullptr;  ///< [classes, cols], or null
  float blur = 0;

  STRATA_HOST_DEVICE float operator()(NodeId node, Count col, std::int32_t label) const {
    const std::uint64_t word = words(static_cast<std::uint64_t>(node * cols + col));
    if (class_means == nullptr) return centered_uniform(word);
    return class_means[label * cols + col] + ieee::product(blur, near_normal(word));
  }
};

/// The weight of an edge, from the ids of its two nodes: both directions weigh the same, and so do parallel
/// edges. For host code. It uses integer arithmetic and exact conversions, so that all hosts agree.
struct WeightFormula {
  KeyedWords words;
  SyntheticSpec::Weights kind = SyntheticSpec::Weights::uniform;

  float operator()(NodeId source, NodeId destination) const {
    const auto low = static_cast<std::uint64_t>(std::min(source, destination)),
               high = static_cast<std::uint64_t>(std::max(source, destination));
    const std::uint64_t word = words(mix64(low) + high);
    if (kind == SyntheticSpec::Weights::lognormal) return near_lognormal(word);
    if (kind == SyntheticSpec::Weights::half_normal) return near_half_normal(word);
    return static_cast<float>((word >> 40) + 1) * 0x1.0p-24f;
  }

  /// The absolute value of a nearly normal variate of variance 1: the mean is about 0.8, the largest 3.46.
  static float near_half_normal(std::uint64_t word) {
    constexpr double kScale = 1.7320508075688772 / 65536;
    return static_cast<float>((std::abs(sum_of_uniforms(word)) + unit_double(mix64(word))) * kScale);
  }

  /// Returns 2^k (1 + f), where k + f is nearly normal with mean 0 and 23 bits hold f exactly. The logarithm
  /// has a standard deviation of about 1, and every weight lies in [1/32, 32].
  static float near_lognormal(std::uint64_t word) {
    constexpr std::int32_t kOne = 127 << 23, kScale = 320;  // ln 2 * 320 * 65536 / sqrt(3) / 2^23 = 1.0005
    return std::bit_cast<float>(kOne + kScale * sum_of_uniforms(word));
  }
};

/// The list of in-neighbors of one node of kind=lognormal.
///
/// Entry j of d draws u from [j/d, (j+1)/d) and requests the neighbor floor(u^2 n). So the list is sorted,
/// and the neighbors of all lists together are as skewed as if each u were drawn from [0, 1). If two entries
/// request the same neighbor, as is likely among the lowest ids, the later one moves up: neighbor(j) =
/// max(neighbor(j - 1) + 1, requested(j)), at most n - 1. Before this limit cuts it off, neighbor(j) - j
/// never decreases, so it is the prefix maximum of requested(j) - j:
///
///     neighbor(j) = min(j + max over i <= j of (requested(i) - i), n - 1)
struct SkewedList {
  KeyedWords words;
  NodeId num_nodes;
  Count first;   ///< index of entry 0 among the entries of all lists
  double width;  ///< 1 / d

  STRATA_HOST_DEVICE SkewedList(const KeyedWords& words_, NodeId num_nodes_, Count first_, Count size)
      : words(words_), num_nodes(num_nodes_), first(first_), width(1 / static_cast<double>(size)) {}

  STRATA_HOST_DEVICE NodeId requested(Count entry) const {
    // unit() is a whole number times 2^-53, so the sum is the same whether or not it is fused.
    const double u =
        (static_cast<double>(entry) + words.unit(static_cast<std::uint64_t>(first + entry))) * width;
    return static_cast<NodeId>(u * u * static_cast<double>(num_nodes));
  }
};

// The pieces of generate(), for callers that put a synthetic graph straight into memory of their own. All
// results are the same for every number of threads and shares.

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
