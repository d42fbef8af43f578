// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>

#include "choosers/choice_rules.hpp"
#include "strata/sampling/one_hop.hpp"
#include "strata/util/random.hpp"

/// The arithmetic of one hop, the same on CPU and GPU.
namespace strata::sampling {

template <typename T>
STRATA_HOST_DEVICE T element(const PiecedArray& array, Count i) {
  if (i >= array.in_pieces) return static_cast<const T*>(array.rest)[i - array.in_pieces];
  int piece = 0;
  for (; i >= array.piece_size; i -= array.piece_size) ++piece;  // few: a division takes longer
  return static_cast<const T*>(array.pieces.data()[piece])[i];
}

/// Element i of an array of ids.
STRATA_HOST_DEVICE inline NodeId id_at(const PiecedArray& array, Count i) {
  return array.dtype == DType::i64 ? element<std::int64_t>(array, i) : element<std::int32_t>(array, i);
}

/// The weights of one list, as the race of the choosers reads them. A view of the array.
template <typename W>
struct ListWeights {
  const PiecedArray* weights;
  Count begin;
  STRATA_HOST_DEVICE float operator[](std::uint32_t position) const {
    return static_cast<float>(element<W>(*weights, begin + position));
  }
};

/// Whether neighbors can be chosen in proportion to it.
STRATA_HOST_DEVICE inline bool is_weight(float value) {
  return value >= 0 && value <= std::numeric_limits<float>::max();
}

/// The key of entry i of the seeds: the same node has other neighbors where it occurs again.
STRATA_HOST_DEVICE inline std::uint64_t entry_key(std::uint64_t key, Count i) {
  return mix64(keyed_word(key, static_cast<std::uint64_t>(i)));
}

/// Whether an unweighted entry's picks are a Subset, which is chosen as a whole.
STRATA_HOST_DEVICE inline bool takes_subset(const HopRule& rule, Count degree) {
  return rule.replacement == Replacement::without && rule.fanout > 0 && degree > rule.fanout &&
         Subset::admits(degree, rule.fanout);
}

/// The position in its list of pick j of an unweighted entry that takes no subset.
STRATA_HOST_DEVICE inline Count unweighted_position(const HopRule& rule, std::uint64_t key, Count degree,
                                                    Count j) {
  if (rule.replacement == Replacement::with) {
    return static_cast<Count>(
        below(keyed_word(key, static_cast<std::uint64_t>(j)), static_cast<std::uint64_t>(degree)));
  }
  if (rule.fanout < 0 || degree <= rule.fanout) return j;
  return static_cast<Count>(Shuffle(static_cast<std::uint64_t>(degree), key)(static_cast<std::uint64_t>(j)));
}

STRATA_HOST_DEVICE inline Count unweighted_count(const HopRule& rule, Count degree) {
  if (rule.replacement == Replacement::with) return degree > 0 ? rule.fanout : 0;
  return rule.fanout < 0 || degree <= rule.fanout ? degree : rule.fanout;
}

[[noreturn]] void refuse_seed(Count position, NodeId seed, Count num_nodes);
[[noreturn]] void refuse_list(NodeId node, Count num_indices);
[[noreturn]] void refuse_weight(Count index);

std::unique_ptr<OneHop> make_hop_on_gpu(const HopArrays& arrays, const IdSpan& seeds, const HopRule& rule,
                                        HopPlace place);

/// Calls run(index type, weight type) as values of those types; no weights are float.
template <typename Run>
decltype(auto) visit_types(const HopArrays& arrays, Run&& run) {
  const bool is_double = arrays.weights && arrays.weights->dtype == DType::f64;
  const auto with_weights = [&](auto index) {
    return is_double ? run(index, double{}) : run(index, float{});
  };
  return arrays.indices.dtype == DType::i64 ? with_weights(std::int64_t{}) : with_weights(std::int32_t{});
}

}  // namespace strata::sampling
