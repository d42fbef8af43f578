// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/util/types.hpp"

struct CUstream_st;

namespace strata::train {

/// The loss of a batch and its gradient, as class_loss.hpp defines them.
struct ClassLossBatch {
  Count rows = 0, classes = 0;
  bool bce = false;
  float smoothing = 0;
  const float* weights = nullptr;  ///< [classes], or null: ones
  const float* logits = nullptr;   ///< [rows, classes]
  bool multi_label = false;
  const std::int32_t* labels = nullptr;  ///< [rows, words of a label]
  const float* total = nullptr;          ///< [1] divisor of the gradient
  float* gradient = nullptr;             ///< [rows, classes]
  float* row_outcomes = nullptr;         ///< [rows, kOutcomes]
  float* outcome = nullptr;              ///< [kOutcomes] loss, correct, seeds: sums in the order of the rows
  static constexpr int kOutcomes = 3;
};

void class_loss_cuda(const ClassLossBatch& batch, CUstream_st* stream);

}  // namespace strata::train
