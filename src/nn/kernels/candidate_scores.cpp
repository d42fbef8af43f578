// SPDX-License-Identifier: Apache-2.0
#include "kernels/candidate_scores.hpp"

#include <array>
#include <limits>

#include "kernels/bf16.hpp"
#include "kernels/parallel_cpu.hpp"
#include "strata/cuda/device.hpp"

namespace strata::nn {
namespace {

constexpr Count kLanes = 16;  // sums that a product adds up side by side

template <typename T>
inline float product(const float* __restrict query, const T* __restrict row, Count cols) {
  std::array<float, kLanes> sums{};
  Count c = 0;
  for (; c + kLanes <= cols; c += kLanes)
    for (Count lane = 0; lane < kLanes; ++lane) sums[at(lane)] += query[c + lane] * to_f32(row[c + lane]);
  for (Count lane = 0; c + lane < cols; ++lane) sums[at(lane)] += query[c + lane] * to_f32(row[c + lane]);
  for (Count width = kLanes / 2; width > 0; width /= 2)
    for (Count lane = 0; lane < width; ++lane) sums[at(lane)] += sums[at(lane + width)];
  return sums[0];
}

template <typename T>
void score_as(const CandidateScores& s) {
  const T* const rows = static_cast<const T*>(s.rows);
  for_rows(s.edges, s.candidates * s.cols, [&](Count begin, Count end) {
    for (Count edge = begin; edge < end; ++edge) {
      for (Count i = edge * s.candidates; i < (edge + 1) * s.candidates; ++i) {
        const bool is_left_out = s.left_out != nullptr && s.ids[i] == s.left_out[edge];
        s.out[i] = is_left_out ? std::numeric_limits<float>::quiet_NaN()
                               : product(s.queries + edge * s.cols, rows + s.ids[i] * s.cols, s.cols);
      }
    }
  });
}

void count_on_cpu(const ScoreCounts& c) {
  for_rows(c.edges, c.candidates, [&c](Count begin, Count end) {
    for (Count edge = begin; edge < end; ++edge) {
      const float* const scores = c.scores + edge * c.row_length;
      const float own = c.own[edge];
      Count above = 0, equal = 0;
      for (Count k = 0; k < c.candidates; ++k) {
        above += scores[k] > own ? 1 : 0;
        equal += scores[k] == own ? 1 : 0;
      }
      c.above[edge] += above;
      c.equal[edge] += equal;
    }
  });
}

}  // namespace

void score_candidates(const CandidateScores& scores, [[maybe_unused]] const cuda::Stream& stream) {
  if (scores.edges == 0 || scores.candidates == 0) return;
#if STRATA_WITH_CUDA
  const cuda::DeviceGuard guard(stream.device());
  if (stream.device().is_cuda()) return score_candidates_cuda(scores, stream.get());
#endif
  scores.dtype == DType::bf16 ? score_as<Bf16>(scores) : score_as<float>(scores);
}

void count_scores(const ScoreCounts& counts, [[maybe_unused]] const cuda::Stream& stream) {
  if (counts.edges == 0 || counts.candidates == 0) return;
#if STRATA_WITH_CUDA
  const cuda::DeviceGuard guard(stream.device());
  if (stream.device().is_cuda()) return count_scores_cuda(counts, stream.get());
#endif
  count_on_cpu(counts);
}

}  // namespace strata::nn
