// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "evaluation/evaluator.hpp"
#include "step/learned_rows.hpp"
#include "stop_poll.hpp"
#include "strata/batches/fetcher.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/nn/model.hpp"
#include "strata/sampling/sampler.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

class SampledEvaluator final : public Evaluator {
 public:
  SampledEvaluator(const EvaluationContext& context, Count batch_size)
      : context_(context),
        batch_size_(batch_size),
        communicator_(context.ranks.world->duplicate()),
        device_(context.ranks.device()) {}

  Evaluation evaluate(nn::BlockModel& model) override {
    const auto start = std::chrono::steady_clock::now();
    const at::NoGradGuard no_grad;
    model.eval();
    sampling::ExchangeContext exchange;
    batches::RowExchangeContext rows;
    if (context_.ranks.on_several_machines()) {
      if (!context_.graph->is_replicated())
        exchange = {&communicator_, context_.ranks.topology, context_.graph->machine_offsets(),
                    context_.graph->halo_lists(), context_.pool};
      rows = {&communicator_, context_.ranks.topology, context_.graph->machine_offsets(),
              context_.ranks.machine->index()};
      rows.halo = context_.graph->exact_halo_rows();
    }
    const auto sampler = sampling::make_sampler(context_.graph->whole_view(), sampler_options(model),
                                                exchange, 1, *context_.pool);
    batches::RowFetcher fetcher(context_.graph->features(), device_, rows, *context_.pool);
    StopPoll poll(communicator_, context_.stop_requested);
    const Stages stages{.model = &model, .sampler = sampler.get(), .fetcher = &fetcher, .poll = &poll};
    const auto valid = score(stages, context_.graph->valid_nodes());
    const auto test = valid ? score(stages, context_.graph->test_nodes()) : std::nullopt;
    Evaluation result;
    result.stopped = !test;
    if (test) {
      result.valid = valid->scores;
      result.test = test->scores;
      result.test_details = test->details;
    }
    model.train();
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  void close() override { communicator_.close(); }

 private:
  struct Stages {
    nn::BlockModel* model;
    sampling::MiniBatchSampler* sampler;
    batches::RowFetcher* fetcher;
    StopPoll* poll;
  };
  struct Scored {
    Scores scores;
    std::string details;
  };

  sampling::SamplerOptions sampler_options(const nn::BlockModel& model) const {
    sampling::SamplerOptions options = context_.sampler;
    options.max_seeds = batch_size_;
    options.edge_ids = context_.graph->manifest().types.several() && model.traits().needs_types;
    options.in_degrees = model.traits().needs_in_degrees;
    return options;
  }

  /// The key of all batches, so that no score depends on how nodes are divided among ranks and batches. No
  /// step of training has this key.
  BatchKey key() const { return {.seed = context_.seed, .epoch = ~std::uint32_t{0}, .step = 0}; }

  /// The scores of some nodes; none if the poll ended the evaluation.
  std::optional<Scored> score(const Stages& stages, std::span<const NodeId> nodes) {
    nn::BlockModel& model = *stages.model;
    const Count count = static_cast<Count>(nodes.size());
    const Count ranks = context_.ranks.machine->size(), rank = context_.ranks.machine->rank();
    const Count begin = count * rank / ranks, end = count * (rank + 1) / ranks;
    std::vector<std::int64_t> steps{(end - begin + batch_size_ - 1) / batch_size_};
    communicator_.all_reduce(std::span(steps), comm::Communicator::Op::max);

    const Count outputs = model.output_cols(model.num_layers() - 1);
    const Count cols = context_.graph->features().spec().cols;
    const cuda::Stream stream = current_stream(device_);
    const std::unique_ptr<ScoreBoard> board = context_.task->make_board(context_.graph->manifest(), outputs);
    for (std::int64_t step = 0; step < steps[0]; ++step) {
      if (stages.poll->agreed()) return std::nullopt;
      const Count from = std::min(end, begin + step * batch_size_), to = std::min(end, from + batch_size_);
      const auto seeds = nodes.subspan(at(from), at(to - from));
      const sampling::MiniBatch batch = stages.sampler->sample(seeds, key(), 0, stream);
      const at::Tensor input =
          at::empty({batch.num_inputs(), cols}, at::TensorOptions().device(torch_device(device_)));
      stages.fetcher->fetch({.ids = batch.input_nodes(), .count = batch.num_inputs()},
                            input.mutable_data_ptr<float>(), stream);
      context_.alive();
      if (seeds.empty()) continue;
      const at::Tensor whole =
          context_.learned != nullptr ? context_.learned->input(input, batch.blocks.front()) : input;
      const at::Tensor rows =
          model.forward(whole, batch, {.key = key(), .training = false}).cpu().contiguous();
      for (std::size_t i = 0; i < seeds.size(); ++i) {
        const Count row = seeds[i] - context_.graph->whole_host_view().first_node;
        board->add({rows.const_data_ptr<float>() + static_cast<Count>(i) * outputs, at(outputs)},
                   context_.targets.of(row));
      }
    }
    const Scores scores =
        board->finish({.communicator = &communicator_, .pool = context_.pool, .alive = context_.alive});
    return Scored{scores, board->details()};
  }

  EvaluationContext context_;
  Count batch_size_;
  comm::Communicator communicator_;
  Device device_;
};

}  // namespace

std::unique_ptr<Evaluator> make_sampled_evaluator(const EvaluationContext& context, Count batch_size) {
  return std::make_unique<SampledEvaluator>(context, batch_size);
}

}  // namespace strata::train
