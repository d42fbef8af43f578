#include "step_runner.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "strata/nn/model.hpp"
#include "torch_device.hpp"

namespace strata::train {

StepRunner::StepRunner(const Parts& parts) : parts_(parts) {
  local_loss_ = at::zeros({1}, parts.parameters->values().options());
  for (Readback& readback : readbacks_) {
    readback.tail = cuda::Array<float>(cuda::Memory::pinned, StepTail::kSize + 1, "a step's outcome");
    readback.copied = cuda::Event(parts.device);
  }
}

void StepRunner::forward_backward(const LoadedBatch& batch, Count num_update_seeds) {
  const Count num_seeds = batch.sample.num_seeds;
  if (num_seeds == 0) return;
  const at::Tensor features =
      wrap_rows(batch.features, batch.sample.num_inputs(), parts_.feature_cols, parts_.device);
  const at::Tensor labels = wrap_ids(batch.labels, num_seeds, parts_.device);
  const at::Tensor logits =
      parts_.model->forward(features, batch.sample, {.key = batch.key, .training = true});
  // Divided by the seeds of ALL ranks, so that the plain sum over ranks is the gradient of the mean.
  const at::Tensor total = at::full({}, static_cast<double>(num_update_seeds), features.options());
  const Loss::Result loss = (*parts_.loss)(logits, labels, total);
  loss.mean.backward();

  at::Tensor tail = parts_.parameters->tail();
  tail.select(0, 0).add_(loss.sum);
  tail.select(0, 1).add_(loss.correct);
  tail.select(0, 2).add_(loss.seeds);
}

std::optional<StepOutcome> StepRunner::run(const LoadedBatch& batch, const Place& place, bool stop,
                                           const cuda::Stream& stream) {
  const cuda::Range range("train");
  const at::Tensor& reduced = parts_.parameters->reduced();
  if (place.first) reduced.zero_();
  forward_backward(batch, place.num_seeds);
  if (!place.last) return std::nullopt;
  local_loss_.copy_(parts_.parameters->tail().narrow(0, 0, 1));
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
  cuda::copy_async(readback.tail.data() + StepTail::kSize, local_loss_.const_data_ptr<float>(), sizeof(float),
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
                     .stop = readback.tail[3] > 0,
                     .local_loss = readback.tail[StepTail::kSize]};
}

}  // namespace strata::train
