// SPDX-License-Identifier: Apache-2.0
#include "strata/rpc/pipeline.hpp"

#include <ATen/ops/cat.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <mutex>

#include "channels/torch_streams.hpp"
#include "core.hpp"
#include "modules/module_calls.hpp"
#include "strata/util/error.hpp"
#include "strata/util/threads.hpp"

namespace strata::rpc {

namespace {

std::shared_ptr<Completion> new_completion() {
  return std::make_shared<Completion>(std::weak_ptr<Workers>{});  // nothing follows it
}

std::exception_ptr wait_for_error(Completion& completion) {
  try {
    completion.wait();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

/// Autograd runs nodes backward in the reverse order in which a thread made them. With one thread for all
/// micro-batches, that order does not depend on which thread took which call.
struct StageRun::State {
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::mutex mutex;
  std::map<std::int64_t, std::shared_ptr<Completion>> ends;  // by micro-batch; of -1, before the first
  bool cancelled = false;
  Worker thread;  // used by the micro-batch that has the turn

  std::shared_ptr<Completion> end_of(std::int64_t micro_batch);
  void cancel();
  /// `x` runs on the thread, too, so that the thread's stream waits for an input when its turn has come.
  StageOutput compute(const std::function<at::Tensor()>& x);
};

namespace {

std::exception_ptr cancellation() {
  return std::make_exception_ptr(CommError("another micro-batch of this pipeline failed"));
}

}  // namespace

std::shared_ptr<Completion> StageRun::State::end_of(std::int64_t micro_batch) {
  const std::lock_guard lock(mutex);
  std::shared_ptr<Completion>& end = ends[micro_batch];
  if (!end) {
    end = new_completion();
    if (cancelled) end->fail(cancellation());
    if (micro_batch < 0) end->succeed();
  }
  return end;
}

void StageRun::State::cancel() {
  const std::lock_guard lock(mutex);
  cancelled = true;
  for (const auto& [micro_batch, end] : ends) end->fail(cancellation());
}

StageOutput StageRun::State::compute(const std::function<at::Tensor()>& x) {
  Core& core = *working_core();
  const ContextId context = current_context(core);
  const std::shared_ptr<Completion> done = new_completion();
  StageOutput y;
  thread.start([&] {
    try {
      const WorkFor working(core, context);
      y = StageOutput(forward(x()));
      done->succeed();
    } catch (...) {
      done->fail(std::current_exception());
    }
  });
  // This thread of the agent's is replaced while it waits, because `forward` may call other ranks.
  const std::exception_ptr error = wait_for_error(*done);
  thread.wait();
  if (error) std::rethrow_exception(error);
  return y;
}

/// A micro-batch's place in the order. Its end lets the next one go on.
class StageRun::Turn {
 public:
  Turn(State& state, std::int64_t micro_batch)
      : before_(state.end_of(micro_batch - 1)), end_(state.end_of(micro_batch)) {}
  ~Turn() {
    static_cast<void>(wait_for_error(*before_));
    end_->succeed();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  void wait() const { before_->wait(); }

 private:
  const std::shared_ptr<Completion> before_, end_;
};

StageOutput::StageOutput(at::Tensor values) : values_(std::move(values)) {
  if (!values_.is_cuda()) return;
  auto made = std::make_shared<c10::Event>(c10::kCUDA);
  made->record(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(values_.device()));
  made_ = std::move(made);
}

/// Packs the output from a stream that waits for nothing else, and without a kernel, which would not begin
/// before those that the stage has queued by now.
std::int32_t StageOutput::add_to(Packing& packing) const {
  if (!made_) return packing.add(values_);
  const c10::Stream stream =
      pool_stream({.kind = Device::Kind::cuda, .index = static_cast<int>(values_.get_device())});
  const c10::StreamGuard on_stream(stream);
  made_->block(stream);
  c10::impl::VirtualGuardImpl(c10::kCUDA).recordDataPtrOnStream(values_.storage().data_ptr(), stream);
  return packing.add(values_, Packing::Unchanged::until_sent);
}

StageRun::StageRun(std::function<at::Tensor(const at::Tensor&)> forward) : state_(std::make_shared<State>()) {
  state_->forward = std::move(forward);
}

StageOutput StageRun::forward(std::int64_t micro_batch, const at::Tensor& x) const {
  const Turn turn(*state_, micro_batch);
  turn.wait();
  return state_->compute([&] { return x; });
}

StageOutput StageRun::forward_from(std::int64_t micro_batch, const Ref<StageOutput>& x) const {
  const Turn turn(*state_, micro_batch);
  Future<StageOutput> output = x.fetch();  // comes while micro-batches before this one compute
  turn.wait();
  return state_->compute([&] { return output.wait().values(); });
}

void StageRun::cancel() const { state_->cancel(); }

void add_pipeline_calls(Registry& registry) {
  registry.method("strata::StageRun::forward", &StageRun::forward);
  registry.method("strata::StageRun::forward_from", &StageRun::forward_from);
  registry.method("strata::StageRun::cancel", &StageRun::cancel);
}

namespace {

Future<StageOutput> send_through(const std::vector<Ref<StageRun>>& runs, std::int64_t micro_batch,
                                 const at::Tensor& x) {
  Ref<StageOutput> h = runs.front().remote(&StageRun::forward, micro_batch, x);
  for (std::size_t i = 1; i < runs.size(); ++i) h = runs[i].remote(&StageRun::forward_from, micro_batch, h);
  return h.fetch();
}

/// All of them come before the current stream waits for the first: it may be that of a stage, which then
/// would not go on with the micro-batches behind it.
std::vector<at::Tensor> values_of(std::vector<Future<StageOutput>> outputs) {
  for (const Future<StageOutput>& output : outputs)
    while (!output.wait_for(std::chrono::hours(1))) continue;  // its timeout ends it
  std::vector<at::Tensor> values;
  for (const StageOutput& output : wait_for_all(std::move(outputs))) values.push_back(output.values());
  return values;
}

void cancel(const std::vector<Ref<StageRun>>& runs) {
  for (const Ref<StageRun>& run : runs) {
    try {
      run.async(&StageRun::cancel);
    } catch (const CommError&) {  // its rank is gone
    }
  }
}

}  // namespace

at::Tensor pipeline(const std::vector<Stage>& stages, const at::Tensor& x, const PipelineOptions& options) {
  if (stages.empty()) throw InputError("a pipeline without stages");
  if (x.dim() == 0 || options.micro_batches < 1 || options.micro_batches > x.size(0))
    throw InputError(fmt::format("{} micro-batches of a tensor of {} elements and {} dimensions",
                                 options.micro_batches, x.numel(), x.dim()),
                     "Choose from 1 to as many as there are rows.");
  std::vector<Ref<StageRun>> runs;
  for (const Stage& stage : stages) runs.push_back(stage());
  try {
    std::vector<Future<StageOutput>> outputs;
    for (const at::Tensor& piece : x.tensor_split(options.micro_batches))
      outputs.push_back(send_through(runs, std::ssize(outputs), piece));
    return at::cat(values_of(std::move(outputs)));
  } catch (...) {
    cancel(runs);
    throw;
  }
}

}  // namespace strata::rpc
