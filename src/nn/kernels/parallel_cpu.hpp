// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <omp.h>

#include <algorithm>
#include <atomic>

#include "kernels/simd.hpp"

/// Divides the rows of a kernel among the threads of OpenMP, which are libtorch's, too.
namespace strata::nn {

// Other stages share the cores, so threads take pieces as they become free.
constexpr Count kPiecesPerThread = 8;
constexpr Count kSerialElements = 1 << 14;

/// Calls body(piece), which throws nothing, for all pieces; the threads take them one by one.
template <typename Body>
void for_pieces(Count pieces, const Body& body) {
  std::atomic<Count> next{0};
  const int threads = static_cast<int>(std::min<Count>(pieces, omp_get_max_threads()));
#pragma omp parallel num_threads(threads) if (threads > 1 && !omp_in_parallel())
  for (Count piece = next.fetch_add(1); piece < pieces; piece = next.fetch_add(1)) body(piece);
}

/// Calls body(begin, end) for pieces of [0, rows) of equal size, vectorized.
template <typename Body>
void for_rows(Count rows, Count cols, const Body& body) {
  if (rows * cols <= kSerialElements) return run_vectorized(body, 0, rows);
  const Count pieces = std::min<Count>(rows, kPiecesPerThread * omp_get_max_threads());
  for_pieces(pieces, [&](Count p) { run_vectorized(body, rows * p / pieces, rows * (p + 1) / pieces); });
}

/// The same with pieces of equal work, for rows that differ in their number of edges.
template <typename Body>
void for_edges(const Count* indptr, Count rows, Count cols, const Body& body) {
  const auto work = [&](Count row) { return indptr[row] - indptr[0] + row; };
  if (work(rows) * cols <= kSerialElements) return run_vectorized(body, 0, rows);
  const Count pieces = std::min<Count>(rows, kPiecesPerThread * omp_get_max_threads());
  const auto boundary = [&](Count piece) {
    const Count target = work(rows) / pieces * piece;
    Count low = 0, high = rows;
    while (low < high) {
      const Count middle = low + (high - low) / 2;
      if (work(middle) < target)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  for_pieces(pieces,
             [&](Count p) { run_vectorized(body, boundary(p), p + 1 == pieces ? rows : boundary(p + 1)); });
}

}  // namespace strata::nn
