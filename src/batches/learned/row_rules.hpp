// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "strata/batches/embedding.hpp"
#include "strata/util/random.hpp"
#include "strata/util/row_code.hpp"

/// What an update does with the elements of a row, with the same bits on CPU and GPU: single IEEE operations
/// that no compiler fuses.
namespace strata::batches {

STRATA_HOST_DEVICE inline float root(float a) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(a);
#else
  return std::sqrt(a);
#endif
}

/// A RowUpdate as elements need it.
struct RowStep {
  float rate = 0;  ///< of Adam with both bias corrections
  float rest1 = 0, rest2 = 0;
  float epsilon = 0;
  float scale = 1;

  /// `updates` counts this one, too.
  static RowStep of(const RowUpdate& update, RowOptimizer optimizer, Count updates) {
    double rate = update.rate;
    if (optimizer == RowOptimizer::adam) {
      const auto steps = static_cast<double>(updates);
      rate *= std::sqrt(1 - std::pow(update.beta2, steps)) / (1 - std::pow(update.beta1, steps));
    }
    return {static_cast<float>(rate), static_cast<float>(1 - update.beta1),
            static_cast<float>(1 - update.beta2), static_cast<float>(update.epsilon),
            static_cast<float>(update.scale)};
  }

  STRATA_HOST_DEVICE float scaled(float gradient) const { return ieee::product(scale, gradient); }

  /// One element: `first` and `second` are its state, as far as the optimizer has it by element.
  template <RowOptimizer kOptimizer>
  STRATA_HOST_DEVICE void apply(float& weight, float& first, float& second, float gradient,
                                float row_root) const {
    float change = gradient;
    if constexpr (kOptimizer == RowOptimizer::rowwise_adagrad) change = ieee::quotient(gradient, row_root);
    if constexpr (kOptimizer == RowOptimizer::adagrad) {
      first = ieee::sum(first, ieee::product(gradient, gradient));
      change = ieee::quotient(gradient, ieee::sum(root(first), epsilon));
    }
    if constexpr (kOptimizer == RowOptimizer::adam) {
      first = ieee::sum(first, ieee::product(rest1, ieee::sum(gradient, -first)));
      second = ieee::sum(second, ieee::product(rest2, ieee::sum(ieee::product(gradient, gradient), -second)));
      change = ieee::quotient(first, ieee::sum(root(second), epsilon));
    }
    weight = ieee::sum(weight, -ieee::product(rate, change));
  }

  /// The new state of a row, from the sum of its squared gradients; returns the divisor of its elements.
  STRATA_HOST_DEVICE float add_square(float& state, double square, Count cols) const {
    state = ieee::sum(state, static_cast<float>(square / static_cast<double>(cols)));
    return ieee::sum(root(state), epsilon);
  }
};

}  // namespace strata::batches
