// SPDX-License-Identifier: Apache-2.0
#include "step/step_runner.hpp"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <utility>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"
#include "torch_device.hpp"

namespace strata::train {

RecordedBatch RecordedBatch::of(const batches::LoadedBatch& batch) {
  return {.blocks = batch.sample.blocks,
          .counts = batch.sample.device_counts,
          .key = batch.sample.device_key,
          .features = batch.features,
          .targets = batch.targets,
          .num_targets = batch.num_targets};
}

StepRunner::StepRunner(const Parts& parts)
    : parts_(parts),
      all_sms_(parts.device, cuda::kHighestPriority),
      computed_(parts.device),
      summed_(parts.device) {
  local_loss_ = at::zeros({1}, parts.parameters->values().options());
  update_seeds_ = at::zeros({}, parts.parameters->values().options());
  for (Readback& readback : readbacks_) {
    readback.tail = cuda::Array<float>(cuda::Memory::pinned, StepTail::kSize + 1, "a step's outcome");
    readback.copied = cuda::Event(parts.device);
  }
  for (batches::StreamClock& clock : sum_clocks_) clock = batches::StreamClock(parts.device);
}

/// Returns the gradients of the learned rows, if there are any.
RowGradients StepRunner::forward_backward(const batches::LoadedBatch& batch) {
  const nn::Pass pass{.key = batch.key, .training = true, .device_key = batch.sample.device_key};
  const at::Tensor features = parts_.table.defined() ? parts_.table
                                                     : wrap_rows(batch.features, batch.sample.num_inputs(),
                                                                 parts_.feature_cols, parts_.device);
  LearnedRows::Input learned;
  if (parts_.learned != nullptr) learned = parts_.learned->training_input(features, batch.sample);
  const at::Tensor& rows = parts_.learned != nullptr ? learned.input : features;
  const at::Tensor outputs = parts_.model->forward(rows, batch.sample, pass);
  // Divided by the seeds of ALL ranks, so that the plain sum over ranks is the gradient of the mean.
  const Loss::Result loss = loss_of(batch, outputs);
  outputs.backward(loss.gradient);
  parts_.parameters->tail().narrow(0, 0, loss.outcome.size(0)).add_(loss.outcome);
  return parts_.learned != nullptr ? learned.gradients() : RowGradients{};
}

Loss::Result StepRunner::loss_of(const batches::LoadedBatch& batch, const at::Tensor& outputs) const {
  if (batch.of_links) return (*parts_.pair_loss)(outputs, wrap_links(batch), update_seeds_);
  return (*parts_.loss)(outputs,
                        wrap_words(batch.targets, batch.num_targets, parts_.target_words, parts_.device),
                        update_seeds_);
}

LinkBatch StepRunner::wrap_links(const batches::LoadedBatch& batch) const {
  const Count links = batch.num_targets, sources = links * parts_.places.sources;
  auto* const numbers = reinterpret_cast<std::int64_t*>(const_cast<std::int32_t*>(batch.targets));
  const at::Tensor all = at::from_blob(numbers, {links * parts_.places.numbers()},
                                       at::TensorOptions(at::kLong).device(torch_device(parts_.device)));
  return {.sources = all.slice(0, links, links + sources),
          .destinations = all.slice(0, links + sources),
          .links = all.slice(0, 0, links)};
}

void StepRunner::run_batch(const batches::LoadedBatch& batch, bool last) {
  constexpr int kWarmUp = 2;  // libraries choose algorithms and allocate in their first calls
  if (!parts_.graphs || !batch.padded || num_unrecorded_ < kWarmUp) {
    num_unrecorded_ += batch.padded;
    if (batch.sample.num_seeds > 0) keep(forward_backward(batch), last);
    return;
  }
  keep(replay(batch), last);
}

/// A recorded step writes to the same memory again.
void StepRunner::keep(const RowGradients& gradients, bool last) {
  if (parts_.learned == nullptr) return;
  row_gradients_.push_back(last ? gradients
                                : RowGradients{gradients.rows.clone(), gradients.gradients.clone(), true});
}

// A batch that outgrew its buffers has moved them, and the buffer's recording would read freed memory.
const RowGradients& StepRunner::replay(const batches::LoadedBatch& batch) {
  RecordedBatch& recorded = recorded_[at(batch.buffer)];
  RecordedBatch now = RecordedBatch::of(batch);
  if (!graphs_.recorded(batch.buffer) || recorded != now) {
    graphs_.record(batch.buffer, [&] { recorded_gradients_[at(batch.buffer)] = forward_backward(batch); });
    recorded = std::move(now);
  }
  graphs_.replay(batch.buffer);
  return recorded_gradients_[at(batch.buffer)];
}

void StepRunner::forget_graphs() {
  recorded_gradients_.fill({});
  graphs_.forget();
  num_unrecorded_ = 0;
}

std::optional<StepOutcome> StepRunner::run(const batches::LoadedBatch& batch, const Place& place, bool stop,
                                           const cuda::Stream& stream) {
  const cuda::NvtxRange range("train");
  const at::Tensor& reduced = parts_.parameters->reduced();
  if (place.first) {
    reduced.zero_();
    update_seeds_.fill_(static_cast<float>(place.num_seeds));
  }
  run_batch(batch, place.last);
  if (!place.last) return std::nullopt;
  local_loss_.copy_(parts_.parameters->tail().narrow(0, 0, 1));
  if (stop) parts_.parameters->tail().select(0, 3).fill_(1.0f);
  if (parts_.learned != nullptr) parts_.exchange->prepare(*parts_.learned, row_gradients_);
  timed_sum(batch, stream);
  begin_readback(batch, stream);
  update();
  current_ ^= 1;
  return take();
}

void StepRunner::update() {
  parts_.optimizer->step(parts_.parameters->values(), parts_.parameters->gradients());
  if (parts_.learned == nullptr) return;
  parts_.learned->update(parts_.exchange->take(), parts_.parameters->reduced());
  row_gradients_.clear();
}

void StepRunner::timed_sum(const batches::LoadedBatch& batch, const cuda::Stream& stream) {
  const auto start = batches::Trace::Clock::now();
  sum_clocks_[current_].begin(stream);
  sum_over_ranks(stream);
  sum_clocks_[current_].end(stream);
  if (parts_.device.is_cuda()) return;  // take() learns how long it took
  const auto end = batches::Trace::Clock::now();
  count_sum(end - start, end, batch.key.step);
}

void StepRunner::count_sum(batches::Trace::Clock::duration length, batches::Trace::Clock::time_point end,
                           std::int64_t step) {
  sum_seconds_ += std::chrono::duration<double>(length).count();
  if (parts_.trace != nullptr) parts_.trace->add(batches::Trace::Lane::gradient_sum, end - length, end, step);
}

double StepRunner::take_sum_seconds() { return std::exchange(sum_seconds_, 0); }

// NCCL's kernels wait for other blocks of the same kernel, and few SMs may not hold all of them at once.
void StepRunner::sum_over_ranks(const cuda::Stream& stream) {
  const auto sum_on = [&](const cuda::Stream& place) {
    const at::Tensor& reduced = parts_.parameters->reduced();
    parts_.reducer->sum(reduced.mutable_data_ptr<float>(), reduced.numel(), place);
    if (parts_.learned != nullptr) parts_.exchange->exchange(place);
  };
  if (stream.sms().is_all()) return sum_on(stream);
  computed_.record(stream);
  all_sms_.wait(computed_);
  sum_on(all_sms_);
  summed_.record(all_sms_);
  stream.wait(summed_);
}

std::optional<StepOutcome> StepRunner::drain() {
  current_ ^= 1;
  return take();
}

void StepRunner::begin_readback(const batches::LoadedBatch& batch, const cuda::Stream& stream) {
  Readback& readback = readbacks_[current_];
  const at::Tensor tail = parts_.parameters->tail();
  cuda::copy_async(readback.tail.data(), tail.const_data_ptr<float>(), StepTail::kSize * sizeof(float),
                   stream);
  cuda::copy_async(readback.tail.data() + StepTail::kSize, local_loss_.const_data_ptr<float>(), sizeof(float),
                   stream);
  readback.copied.record(stream);
  readback.step_in_epoch = batch.step_in_epoch;
  readback.step = batch.key.step;
  readback.outstanding = true;
}

std::optional<StepOutcome> StepRunner::take() {
  Readback& readback = readbacks_[current_];
  if (!readback.outstanding) return std::nullopt;
  readback.copied.synchronize();
  readback.outstanding = false;
  if (parts_.device.is_cuda()) {
    const std::chrono::duration<double> length(sum_clocks_[current_].take_seconds());
    count_sum(std::chrono::duration_cast<batches::Trace::Clock::duration>(length),
              batches::Trace::Clock::now(), readback.step);
  }
  return StepOutcome{.step_in_epoch = readback.step_in_epoch,
                     .loss_sum = readback.tail[0],
                     .hits = readback.tail[1],
                     .seeds = readback.tail[2],
                     .stop = readback.tail[3] > 0,
                     .local_loss = readback.tail[StepTail::kSize]};
}

}  // namespace strata::train
