// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>

#include "strata/nn/kinds.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

struct CUstream_st;

/// One update of a flat parameter buffer, over raw pointers of one device.
namespace strata::nn {

/// See ScheduleOptions.
struct LearningRate {
  ScheduleKind kind = ScheduleKind::constant;
  double base = 0, gamma = 1;
  Count warmup_steps = 0, total_steps = 0, step_size = 1;

  STRATA_HOST_DEVICE double at(Count step) const {
    if (step < warmup_steps) return base * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
    const Count since = step - warmup_steps;
    if (kind == ScheduleKind::constant) return base;
    if (kind == ScheduleKind::step) return base * std::pow(gamma, static_cast<double>(since / step_size));
    const Count length = total_steps - warmup_steps;
    if (since >= length) return 0;
    constexpr double kPi = 3.14159265358979323846;
    return base * 0.5 * (1 + std::cos(kPi * static_cast<double>(since) / static_cast<double>(length)));
  }
};

/// Counters on the device; part of a checkpoint.
struct UpdateCounters {
  std::int64_t steps = 0, skipped = 0;
};

/// The values that all elements of an update share; computed on the device from the counters.
struct UpdateScalars {
  float gradient_scale = 1;  ///< of clipping
  float rate = 0;            ///< of the gradient, or of Adam's first moment, bias-corrected
  float inverse_root = 1;    ///< of the second moment's bias correction
  float kept = 1;            ///< factor of decoupled decay
  std::int32_t skip = 0;
};

/// Pieces of the norm's sum. Their number is fixed, so that any number of threads gives the same bits.
constexpr int kNormPieces = 256;

struct Update {
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

  OptimizerKind kind = OptimizerKind::adam;
  LearningRate rate;
  double weight_decay = 0, clip_norm = 0;
  bool skip_not_finite = false;
  Count count = 0;
  float* values = nullptr;
  const float* gradients = nullptr;
  float *first = nullptr, *second = nullptr;  ///< moments; null for sgd
  const float* guard = nullptr;               ///< [1], or null
  UpdateCounters* counters = nullptr;
  double* norm_pieces = nullptr;  ///< [kNormPieces] scratch
  UpdateScalars* scalars = nullptr;

  STRATA_HOST_DEVICE bool needs_norm() const { return clip_norm > 0 || skip_not_finite; }
  STRATA_HOST_DEVICE Count piece_begin(int piece) const { return count * piece / kNormPieces; }

  /// Called once per update. `square` is the sum of the norm's pieces if the norm is needed.
  STRATA_HOST_DEVICE void begin(double square) const {
    UpdateScalars s;
    const bool finite = std::isfinite(square) && (guard == nullptr || std::isfinite(*guard));
    if (skip_not_finite && !finite) {
      ++counters->skipped;
      s.skip = 1;
      *scalars = s;
      return;
    }
    const double norm = std::sqrt(square), lr = rate.at(counters->steps);
    if (clip_norm > 0 && norm > clip_norm) s.gradient_scale = static_cast<float>(clip_norm / (norm + 1e-6));
    const auto steps = static_cast<double>(++counters->steps);
    s.rate = static_cast<float>(kind == OptimizerKind::sgd ? lr : lr / (1 - std::pow(kBeta1, steps)));
    s.inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(kBeta2, steps)));
    s.kept = static_cast<float>(1 - lr * weight_decay);
    *scalars = s;
  }

  STRATA_HOST_DEVICE void element(Count i, const UpdateScalars& s) const {
    float value = values[i], gradient = gradients[i] * s.gradient_scale;
    if (kind == OptimizerKind::adamw)
      value *= s.kept;
    else
      gradient += static_cast<float>(weight_decay) * value;
    if (kind == OptimizerKind::sgd) {
      values[i] = value - s.rate * gradient;
      return;
    }
    constexpr float kB1 = static_cast<float>(kBeta1), kB2 = static_cast<float>(kBeta2);
    constexpr float kRest1 = static_cast<float>(1 - kBeta1), kRest2 = static_cast<float>(1 - kBeta2);
    first[i] = kB1 * first[i] + kRest1 * gradient;
    second[i] = kB2 * second[i] + kRest2 * gradient * gradient;
    const float root = std::sqrt(second[i]) * s.inverse_root + static_cast<float>(kEpsilon);
    values[i] = value - s.rate * first[i] / root;
  }
};

void update_cpu(const Update& update);
void update_cuda(const Update& update, CUstream_st* stream);  ///< CUDA builds only

}  // namespace strata::nn
