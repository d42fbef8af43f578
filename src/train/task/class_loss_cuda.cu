// SPDX-License-Identifier: Apache-2.0
#include "strata/cuda/check.cuh"
#include "strata/util/label_sets.hpp"
#include "task/class_loss_kernels.hpp"

namespace strata::train {
namespace {

constexpr int kBlockThreads = 256;
constexpr unsigned kWarp = 32;
constexpr unsigned kAll = ~0u;

template <typename Combine>
__device__ float over_warp(float value, const Combine& combine) {
#pragma unroll
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(kAll, value, distance));
  return value;
}
__device__ float sum_of_warp(float value) {
  return over_warp(value, [](float a, float b) { return a + b; });
}

/// A row's label and logits, for one warp. Each lane takes every 32nd class.
struct Row {
  const ClassLossBatch& batch;
  const float* logits;
  float* gradient;
  const std::int32_t* label;

  __device__ Row(const ClassLossBatch& t, Count i)
      : batch(t),
        logits(t.logits + i * t.classes),
        gradient(t.gradient + i * t.classes),
        label(t.labels + i * (t.multi_label ? label_set_words(t.classes) : 1)) {}

  __device__ bool is_labelled() const {
    return batch.multi_label ? !is_unlabelled(label, batch.classes) : *label >= 0;
  }
  __device__ bool has(Count c) const { return batch.multi_label ? has_class(label, c) : c == *label; }

  template <typename Visit>
  __device__ void for_classes(const Visit& visit) const {
    for (Count c = threadIdx.x % kWarp; c < batch.classes; c += kWarp) visit(c, logits[c]);
  }
  __device__ float weight(Count c) const { return batch.weights == nullptr ? 1.0f : batch.weights[c]; }

  /// Whether the label is the lowest class with the largest logit.
  __device__ bool is_correct(float largest) const {
    Count first = batch.classes;
    for_classes([&](Count c, float z) { first = z == largest && c < first ? c : first; });
#pragma unroll
    for (unsigned distance = kWarp / 2; distance > 0; distance /= 2)
      first = min(first, __shfl_xor_sync(kAll, first, distance));
    return first == *label;
  }
  /// The share of classes with a logit of the right sign.
  __device__ float share_correct() const {
    float right = 0.0f;
    for_classes([&](Count c, float z) { right += (z > 0.0f) == has(c) ? 1.0f : 0.0f; });
    return sum_of_warp(right) / static_cast<float>(batch.classes);
  }
  __device__ float largest() const {
    float most = -INFINITY;
    for_classes([&](Count, float z) { most = fmaxf(most, z); });
    return over_warp(most, [](float a, float b) { return fmaxf(a, b); });
  }

  __device__ float cross_entropy(float largest, float scale) const {
    const float share = batch.smoothing / static_cast<float>(batch.classes);
    const auto target = [&](Count c) {
      return (share + (has(c) ? 1.0f - batch.smoothing : 0.0f)) * weight(c);
    };
    float exponentials = 0.0f, targets = 0.0f;
    for_classes([&](Count c, float z) {
      exponentials += expf(z - largest);
      targets += target(c);
    });
    exponentials = sum_of_warp(exponentials);
    targets = sum_of_warp(targets);
    const float log_sum = largest + logf(exponentials);
    float loss = 0.0f;
    for_classes([&](Count c, float z) {
      loss += target(c) * (log_sum - z);
      gradient[c] = (expf(z - log_sum) * targets - target(c)) * scale;
    });
    return sum_of_warp(loss);
  }

  __device__ float binary_cross_entropy(float scale) const {
    const float classes = static_cast<float>(batch.classes);
    float loss = 0.0f;
    for_classes([&](Count c, float z) {
      const float target = batch.smoothing / 2 + (has(c) ? 1.0f - batch.smoothing : 0.0f);
      const float part = weight(c) / classes, small = expf(-fabsf(z));
      loss += part * (fmaxf(z, 0.0f) - target * z + log1pf(small));
      gradient[c] = part * ((z >= 0.0f ? 1.0f : small) / (1.0f + small) - target) * scale;
    });
    return sum_of_warp(loss);
  }
};

__global__ void __launch_bounds__(kBlockThreads) loss_rows_kernel(ClassLossBatch batch) {
  const Count i = (static_cast<Count>(blockIdx.x) * kBlockThreads + threadIdx.x) / kWarp;
  if (i >= batch.rows) return;
  const Row row(batch, i);
  float outcome[ClassLossBatch::kOutcomes] = {};
  if (!row.is_labelled()) {
    row.for_classes([&](Count c, float) { row.gradient[c] = 0.0f; });
  } else {
    const float scale = 1.0f / *batch.total, largest = row.largest();
    outcome[0] = batch.bce ? row.binary_cross_entropy(scale) : row.cross_entropy(largest, scale);
    outcome[1] = batch.multi_label ? row.share_correct() : (row.is_correct(largest) ? 1.0f : 0.0f);
    outcome[2] = 1.0f;
  }
  if (threadIdx.x % kWarp == 0) {
    for (int o = 0; o < ClassLossBatch::kOutcomes; ++o)
      batch.row_outcomes[i * ClassLossBatch::kOutcomes + o] = outcome[o];
  }
}

// One warp per outcome. Lane l sums every 32nd row from l on, so that the order of the sum is always the
// same.
__global__ void sum_outcomes_kernel(ClassLossBatch batch) {
  const unsigned o = threadIdx.x / kWarp;
  double sum = 0;
#pragma unroll 8
  for (Count i = threadIdx.x % kWarp; i < batch.rows; i += kWarp)
    sum += static_cast<double>(batch.row_outcomes[i * ClassLossBatch::kOutcomes + o]);
#pragma unroll
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(kAll, sum, distance);
  if (threadIdx.x % kWarp == 0) batch.outcome[o] = static_cast<float>(sum);
}

}  // namespace

void class_loss_cuda(const ClassLossBatch& batch, CUstream_st* stream) {
  const Count blocks = (batch.rows * kWarp + kBlockThreads - 1) / kBlockThreads;
  if (blocks > 0) {
    loss_rows_kernel<<<static_cast<unsigned>(blocks), kBlockThreads, 0, stream>>>(batch);
    cuda::check_launch("loss_rows");
  }
  sum_outcomes_kernel<<<1, ClassLossBatch::kOutcomes * kWarp, 0, stream>>>(batch);
  cuda::check_launch("sum_outcomes");
}

}  // namespace strata::train
