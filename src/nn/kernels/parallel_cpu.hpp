// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#include "kernels/simd.hpp"

/// Divides the rows of a kernel among libtorch's threads.
namespace strata::nn {

// Other stages share the cores, so threads take pieces as they become free.
constexpr Count kPiecesPerThread = 8;
constexpr Count kSerialElements = 1 << 14;

/// Calls body(piece) for all pieces; libtorch's threads take them one by one.
template <typename Body>
void for_pieces(Count pieces, const Body& body) {
  std::atomic<Count> next{0};
  const Count threads = std::min<Count>(pieces, at::get_num_threads());
  at::parallel_for(0, threads, 1, [&](Count, Count) {
    for (Count piece = next.fetch_add(1); piece < pieces; piece = next.fetch_add(1)) body(piece);
  });
}

/// Calls body(begin, end) for pieces of [0, rows) of equal size, vectorized.
template <typename Body>
void for_rows(Count rows, Count cols, const Body& body) {
  if (rows * cols <= kSerialElements) return run_vectorized(body, 0, rows);
  const Count pieces = std::min<Count>(rows, kPiecesPerThread * at::get_num_threads());
  for_pieces(pieces, [&](Count p) { run_vectorized(body, rows * p / pieces, rows * (p + 1) / pieces); });
}

/// The same with pieces of equal work, for rows that differ in their number of edges.
template <typename Body>
void for_edges(const Count* indptr, Count rows, Count cols, const Body& body) {
  const auto work = [&](Count row) { return indptr[row] - indptr[0] + row; };
  if (work(rows) * cols <= kSerialElements) return run_vectorized(body, 0, rows);
  const Count pieces = std::min<Count>(rows, kPiecesPerThread * at::get_num_threads());
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
