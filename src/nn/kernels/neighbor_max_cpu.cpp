// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/edge_kernels.hpp"
#include "kernels/parallel_cpu.hpp"

namespace strata::nn {
namespace {

template <bool WithWinners>
inline void max_row(const EdgeMax& max, Count row) {
  float* __restrict out = max.out + row * max.cols;
  std::int32_t* __restrict winners = WithWinners ? max.winners + row * max.cols : nullptr;
  const auto counts = [&](Count e) { return max.weights == nullptr || max.weights[e] > 0; };
  const Count end = max.edges.indptr[row + 1];
  Count begin = max.edges.indptr[row];
  while (begin < end && !counts(begin)) ++begin;
  if (begin == end) {
    std::fill_n(out, max.cols, 0.0f);
    if constexpr (WithWinners) std::fill_n(winners, max.cols, -1);
    return;
  }
  const std::int32_t first = max.edges.indices[begin];
  std::copy_n(max.in + first * max.cols, max.cols, out);
  if constexpr (WithWinners) std::fill_n(winners, max.cols, first);
  for (Count e = begin + 1; e < end; ++e) {
    if (!counts(e)) continue;
    const std::int32_t u = max.edges.indices[e];
    const float* __restrict in = max.in + u * max.cols;
    for (Count c = 0; c < max.cols; ++c) {
      const bool wins = in[c] > out[c] || in[c] != in[c];
      out[c] = wins ? in[c] : out[c];
      if constexpr (WithWinners) winners[c] = wins ? u : winners[c];
    }
  }
}

inline void grad_row(const EdgeMaxGrad& grad, Count row) {
  float* __restrict out = grad.grad_in + row * grad.cols;
  std::fill_n(out, grad.cols, 0.0f);
  for (Count e = grad.out_edges.indptr[row]; e < grad.out_edges.indptr[row + 1]; ++e) {
    const std::int32_t v = grad.out_edges.indices[e];
    if (e > grad.out_edges.indptr[row] && v == grad.out_edges.indices[e - 1]) continue;
    const float* __restrict from = grad.grad_out + v * grad.cols;
    const std::int32_t* __restrict winners = grad.winners + v * grad.cols;
    for (Count c = 0; c < grad.cols; ++c) out[c] += winners[c] == row ? from[c] : 0.0f;
  }
}

}  // namespace

void neighbor_max_cpu(const EdgeMax& max) {
  if (max.edges.rows == 0 || max.cols == 0) return;
  for_edges(max.edges.indptr, max.edges.rows, max.cols, [&max](Count begin, Count end) {
    for (Count row = begin; row < end; ++row) {
      if (max.winners != nullptr)
        max_row<true>(max, row);
      else
        max_row<false>(max, row);
    }
  });
}

void neighbor_max_grad_cpu(const EdgeMaxGrad& grad) {
  if (grad.out_edges.rows == 0 || grad.cols == 0) return;
  for_edges(grad.out_edges.indptr, grad.out_edges.rows, grad.cols, [&grad](Count begin, Count end) {
    for (Count row = begin; row < end; ++row) grad_row(grad, row);
  });
}

}  // namespace strata::nn
