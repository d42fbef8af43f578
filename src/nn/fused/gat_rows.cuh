// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fused/gat_kernels.hpp"
#include "kernels/attention.hpp"
#include "kernels/warp_columns.cuh"
#include "strata/util/error.hpp"

/// What the forward and backward kernels of GAT share: a warp processes the edges of a dst node in chunks of
/// kRows rows, for kHeads heads at once.
namespace strata::nn {

constexpr int log2_of(int value) { return value == 1 ? 0 : 1 + log2_of(value / 2); }

/// The kRows * kHeads scores of a chunk, one per lane (or equal ones in several neighboring lanes).
template <int kRows, int kHeads>
struct ScoreLanes {
  static constexpr int kValues = kRows * kHeads;
  static_assert(kValues <= 32);
  static constexpr int kShift = 5 - log2_of(kValues);

  __device__ static int row() { return (lane() >> kShift) / kHeads; }
  __device__ static int head() { return (lane() >> kShift) % kHeads; }
  __device__ static bool leads() { return (lane() & ((1u << kShift) - 1u)) == 0; }
  __device__ static float get(float value, int row, int head) {
    return __shfl_sync(~0u, value, (row * kHeads + head) << kShift);
  }
  /// Sums values[row * kHeads + head] over all lanes; each lane gets the sum of its row and head.
  __device__ static float sum_over_lanes(float (&values)[kValues]) {
    halve<kValues, 16>(values);
#pragma unroll
    for (int distance = 16 / kValues; distance > 0; distance /= 2)
      values[0] += __shfl_xor_sync(~0u, values[0], distance);
    return values[0];
  }
  __device__ static float sum_over_rows(float value) {
#pragma unroll
    for (int distance = 16; distance >= kHeads << kShift; distance /= 2)
      value += __shfl_xor_sync(~0u, value, distance);
    return value;
  }
  __device__ static float max_over_rows(float value) {
#pragma unroll
    for (int distance = 16; distance >= kHeads << kShift; distance /= 2)
      value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
    return value;
  }

 private:
  /// Each lane keeps the half of its kCount values that its bit `kDistance` selects, and gives the other half
  /// away.
  template <int kCount, int kDistance>
  __device__ static void halve(float (&values)[kValues]) {
    if constexpr (kCount > 1) {
      const bool upper = lane() & kDistance;
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        const float given = upper ? values[i] : values[i + kCount / 2];
        const float kept = upper ? values[i + kCount / 2] : values[i];
        values[i] = kept + __shfl_xor_sync(~0u, given, kDistance);
      }
      halve<kCount / 2, kDistance / 2>(values);
    }
  }
};

/// One value per head.
template <int kHeads>
using HeadLanes = ScoreLanes<1, kHeads>;

/// The in-neighbors of a dst node: `size` indices from `begin` on.
struct EdgeRange {
  Count begin, size;

  __device__ EdgeRange(const InEdges& edges, Count v)
      : begin(edges.indptr == nullptr ? v * edges.stride : edges.indptr[v]),
        size(edges.indptr == nullptr ? edges.counts[v] : edges.indptr[v + 1] - begin) {}
};

/// A dst node and its in-neighbors; the node itself comes first.
struct GatList {
  Count v, own;  // own: index of its row, -1: none
  EdgeRange neighbors;

  template <typename In>
  __device__ GatList(const GatInput<In>& over, Count node)
      : v(node), own(over.own_ids == nullptr ? node : over.own_ids[node]), neighbors(over.edges, node) {}
  __device__ Count size() const { return neighbors.size + 1; }
  __device__ Count place(Count i) const { return neighbors.begin + v + i; }
  __device__ Count index(const std::int32_t* indices, Count i) const {
    return i == 0 ? own : indices[neighbors.begin + i - 1];
  }
};

/// A lane's part of a row: kVectors packs of Width columns.
template <int Width, int kVectors>
using GatColumns = Columns<Width * kVectors, Width>;

/// Some rows of a list in registers.
template <int Width, int kVectors, int kRows>
struct GatChunk {
  GatColumns<Width, kVectors> rows[kRows];
  Count index;  ///< of this lane's row; lanes from `num` on have none
  int num;

  template <typename In>
  __device__ void load(const GatInput<In>& over, const GatList& list, Count begin) {
    num = static_cast<int>(min(static_cast<Count>(kRows), list.size() - begin));
    index = lane() < num ? list.index(over.edges.indices, begin + lane()) : -1;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const Count from = __shfl_sync(~0u, index, i);
      // The subtraction of 0 keeps ptxas from predicating the loads, which makes a step of GAT 6 % longer.
      if (from >= 0)
        rows[i] = GatColumns<Width, kVectors>::load(over.in + (from - over.first_row) * over.in_pitch, 0,
                                                    over.cols);
      else
        rows[i] = GatColumns<Width, kVectors>::zeros();
    }
  }
};

/// keep(u, v) times the scale, for the lane's row and head.
template <typename In>
__device__ inline float gat_kept(const GatInput<In>& over, const Philox4& key, Count u, Count head,
                                 float scale) {
  if (!over.dropout.active()) return 1.0f;
  return keeps_edge(over.dropout, key, u, static_cast<std::uint32_t>(head)) ? scale : 0.0f;
}

/// Rows per chunk: together 32 columns of f32 per lane.
template <int Width, int kVectors>
constexpr int kChunkRows = Width* kVectors >= 16 ? 2 : (Width* kVectors >= 8 ? 4 : 8);

/// Calls launch.template operator()<Width, kVectors, kHeads>() for rows of `cols` columns; if `packed`, four
/// columns can be loaded at once. Throws Error for rows that no shape fits.
template <typename Launch>
void with_gat_shape(bool packed, Count cols, Count heads, const Launch& launch) {
  const bool alone = heads == 1;
  if (cols > (packed ? 512 : 128))
    throw Error("GAT's sums take no rows of " + std::to_string(cols) + " columns at this alignment");
  if (!packed) return launch.template operator()<1, 4, 1>();
  if (cols > 256) return launch.template operator()<4, 4, 1>();
  if (cols > 128)
    return alone ? launch.template operator()<4, 2, 1>() : launch.template operator()<4, 2, 4>();
  alone ? launch.template operator()<4, 1, 1>() : launch.template operator()<4, 1, 4>();
}

}  // namespace strata::nn
