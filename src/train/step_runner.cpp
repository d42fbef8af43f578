#include "step_runner.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/sum.h>

#include "strata/nn/model.hpp"
#include "torch_device.hpp"

namespace strata::train {

StepRunner::StepRunner(const Parts& parts) : parts_(parts) {
  for (Readback& readback : readbacks_) {
    readback.tail = cuda::Array<float>(cuda::Memory::pinned, StepTail::kSize, "a step's outcome");
    readback.copied = cuda::Event(parts.device);
  }
}

void StepRunner::forward_backward(const LoadedBatch& batch) {
  const Count num_seeds = batch.sample.num_seeds;
  if (num_seeds == 0) return;
  const at::Tensor features =
      wrap_rows(batch.features, batch.sample.num_inputs(), parts_.feature_cols, parts_.device);
  const at::Tensor labels = wrap_ids(batch.labels, num_seeds, parts_.device);
  const at::Tensor logits =
      parts_.model->forward(features, batch.sample, {.key = batch.key, .training = true});
  const at::Tensor loss = at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
  // Divided by the seeds of ALL ranks, so that the plain sum over ranks is the gradient of the mean.
  (loss / static_cast<double>(batch.num_global_seeds)).backward();

  at::Tensor tail = parts_.parameters->tail();
  tail.select(0, 0).copy_(loss.detach());
  tail.select(0, 1).copy_(logits.detach().argmax(1).eq(labels).sum());
  tail.select(0, 2).fill_(static_cast<float>(num_seeds));
}

std::optional<StepOutcome> StepRunner::run(const LoadedBatch& batch, bool stop, const cuda::Stream& stream) {
  const cuda::Range range("train");
  const at::Tensor& reduced = parts_.parameters->reduced();
  reduced.zero_();
  forward_backward(batch);
  if (stop) parts_.parameters->tail().select(0, 3).fill_(1.0f);
  parts_.reducer->sum(reduced.mutable_data_ptr<float>(), reduced.numel(), stream);
  begin_readback(batch.step_in_epoch, stream);
  parts_.optimizer->step(parts_.parameters->values(), parts_.parameters->gradients());
  current_ ^= 1;
  return take(readbacks_[current_]);
}

std::optional<StepOutcome> StepRunner::drain() {
  current_ ^= 1;
  return take(readbacks_[current_]);
}

void StepRunner::begin_readback(Count step_in_epoch, const cuda::Stream& stream) {
  Readback& readback = readbacks_[current_];
  const at::Tensor tail = parts_.parameters->tail();
  cuda::copy_async(readback.tail.data(), tail.const_data_ptr<float>(), StepTail::kSize * sizeof(float),
                   stream);
  readback.copied.record(stream);
  readback.step_in_epoch = step_in_epoch;
  readback.outstanding = true;
}

std::optional<StepOutcome> StepRunner::take(Readback& readback) {
  if (!readback.outstanding) return std::nullopt;
  readback.copied.synchronize();
  readback.outstanding = false;
  return StepOutcome{.step_in_epoch = readback.step_in_epoch,
                     .loss_sum = readback.tail[0],
                     .correct = readback.tail[1],
                     .seeds = readback.tail[2],
                     .stop = readback.tail[3] > 0};
}

}  // namespace strata::train
