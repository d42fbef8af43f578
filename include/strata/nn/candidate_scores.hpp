// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/cuda/stream.hpp"
#include "strata/util/types.hpp"

/// Scores of candidates for an end of edges, and the counts that ranks are made of.
///
/// Pointers are to memory of the stream's device, matrices are dense and row by row. Calls are asynchronous on
/// the stream, allocate nothing and check nothing; on the CPU, they return when they are done, and use OpenMP's
/// threads.
namespace strata::nn {

/// out[e, k] is the product of queries[e] and rows[ids[e, k]]; nan where ids[e, k] == left_out[e]. Sums are f32,
/// and the bits of a score depend on its two rows only, not on the candidates beside it.
struct CandidateScores {
  Count edges = 0, candidates = 0, cols = 0;
  DType dtype = DType::f32;          ///< of rows: f32, bf16
  const float* queries = nullptr;    ///< [edges, cols]
  const void* rows = nullptr;        ///< [.., cols]
  const NodeId* ids = nullptr;       ///< [edges, candidates]
  const NodeId* left_out = nullptr;  ///< [edges]; null: none is
  float* out = nullptr;              ///< [edges, candidates]
};
void score_candidates(const CandidateScores& scores, const cuda::Stream& stream);

/// Adds to above[e] and equal[e] how many of the first `candidates` scores of row e are greater than own[e], or equal
/// to it. A nan is neither.
///
///     scores {5, 2, nan, 2}, own 2: above += 1, equal += 2
struct ScoreCounts {
  Count edges = 0, candidates = 0, row_length = 0;
  const float* scores = nullptr;  ///< [edges, row_length]
  const float* own = nullptr;     ///< [edges]
  Count* above = nullptr;         ///< [edges]
  Count* equal = nullptr;         ///< [edges]
};
void count_scores(const ScoreCounts& counts, const cuda::Stream& stream);

}  // namespace strata::nn
