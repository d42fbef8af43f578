// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "strata/nn/weights.hpp"
#include "strata/train/task.hpp"
#include "strata/util/text.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// The way in which the scores of a run are computed: all in the same way, so that epochs can be
/// compared.
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

/// How far a run has come. A checkpoint holds all of it, and none of it depends on the number of ranks.
struct ProgressState {
  std::uint32_t epoch = 0;                   ///< epoch to continue, counted from 0
  Count step_in_epoch = 0;                   ///< steps that it has already made
  double loss_sum = 0, hits = 0, seeds = 0;  ///< of those steps
  bool evaluation_due = false;               ///< the epoch before `epoch` must be scored first
  EvaluationKind evaluation_kind = EvaluationKind::undecided;
  int best_epoch = 0;  ///< 1-based; 0: no evaluation yet
  Scores best_valid, best_test;
  int evaluations_without_gain = 0;
  at::Tensor best_parameters = {};  ///< flat, undefined before the first evaluation
  std::vector<nn::NamedTensor> best_buffers = {};
  at::Tensor best_rows = {};  ///< learned ones, on the CPU; undefined: none
};

}  // namespace strata::train
