// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/nn/candidate_scores.hpp"

struct CUstream_st;

namespace strata::nn {

void score_candidates_cuda(const CandidateScores& scores, CUstream_st* stream);
void count_scores_cuda(const ScoreCounts& counts, CUstream_st* stream);

}  // namespace strata::nn
