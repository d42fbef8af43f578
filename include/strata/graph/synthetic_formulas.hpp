// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>

#include "strata/graph/synthetic.hpp"
#include "strata/util/ieee.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

/// The elements of synthetic graphs. Each is computed only from its index, with the same bits on CPU and GPU.
/// If a product enters a sum, ieee::product() keeps compilers from fusing the two.
namespace strata::graph {

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

}  // namespace strata::graph
