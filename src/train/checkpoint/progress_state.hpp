// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "strata/nn/weights.hpp"
#include "strata/train/metrics.hpp"
#include "strata/util/enum_names.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// How the scores of a run are computed: all of them in one way, that the best epoch be the best.
enum class EvaluationKind { undecided, exact, sampled };

}  // namespace strata::train

namespace strata {

template <>
inline constexpr auto enum_names<train::EvaluationKind> =
    std::to_array<EnumName<train::EvaluationKind>>({{train::EvaluationKind::undecided, "undecided"},
                                                    {train::EvaluationKind::exact, "exact"},
                                                    {train::EvaluationKind::sampled, "sampled"}});

}  // namespace strata

namespace strata::train {

/// How far a run has come; all of it goes into a checkpoint, and none of it depends on the number of ranks.
struct ProgressState {
  std::uint32_t epoch = 0;                      ///< the one to continue, from 0
  Count step_in_epoch = 0;                      ///< steps of it already made
  double loss_sum = 0, correct = 0, seeds = 0;  ///< of those steps
  bool evaluation_due = false;                  ///< of the epoch before `epoch`: it must be scored first
  EvaluationKind evaluation_kind = EvaluationKind::undecided;
  int best_epoch = 0;  ///< 1-based; 0: no evaluation yet
  Scores best_valid, best_test;
  int evaluations_without_gain = 0;
  at::Tensor best_parameters;  ///< flat, undefined before the first evaluation
  std::vector<nn::NamedTensor> best_buffers;
};

}  // namespace strata::train
