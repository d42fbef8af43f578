#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "strata/feature/fetcher.hpp"
#include "strata/nn/model.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/train/evaluator.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

class SampledEvaluator final : public Evaluator {
 public:
  SampledEvaluator(const EvaluationContext& context, const std::vector<int>& fanouts, Count batch_size)
      : context_(context),
        fanouts_(fanouts),
        batch_size_(batch_size),
        communicator_(context.world->duplicate()),
        device_(context.machine->device()) {}

  Evaluation evaluate(nn::BlockModel& model) override {
    const auto start = std::chrono::steady_clock::now();
    const at::NoGradGuard no_grad;
    model.eval();
    sampling::ExchangeContext exchange;
    feature::RowExchangeContext rows;
    if (context_.topology->num_machines() > 1) {
      if (!context_.graph->is_replicated())
        exchange = {&communicator_, context_.topology, context_.graph->machine_offsets(),
                    context_.graph->halo_lists(), context_.pool};
      rows = {&communicator_, context_.topology, context_.graph->machine_offsets(),
              context_.machine->index()};
      rows.halo = context_.graph->halo_rows();
    }
    const auto sampler = sampling::make_sampler(
        context_.graph->view(),
        {.fanouts = fanouts_, .max_seeds = batch_size_, .in_degrees = model.needs_in_degrees()}, exchange, 1,
        *context_.pool);
    feature::RowFetcher fetcher(context_.graph->features(), device_, rows, *context_.pool);
    Evaluation result{.valid = score(model, *sampler, fetcher, context_.graph->valid_nodes()),
                      .test = score(model, *sampler, fetcher, context_.graph->test_nodes())};
    model.train();
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  void close() override { communicator_.close(); }

 private:
  Scores score(nn::BlockModel& model, sampling::MiniBatchSampler& sampler, feature::RowFetcher& fetcher,
               std::span<const NodeId> nodes) {
    const Count count = static_cast<Count>(nodes.size());
    const Count ranks = context_.machine->size(), rank = context_.machine->rank();
    const Count begin = count * rank / ranks, end = count * (rank + 1) / ranks;
    std::vector<std::int64_t> steps{(end - begin + batch_size_ - 1) / batch_size_};
    communicator_.all_reduce(std::span(steps), comm::Communicator::Op::max);

    const Count classes = model.output_cols(model.num_layers() - 1);
    const Count cols = context_.graph->features().spec().cols;
    const cuda::Stream stream = current_stream(device_);
    const graph::Manifest& manifest = context_.graph->manifest();
    const auto labels = context_.graph->labels();
    ScoreBoard board(classes, manifest.multi_label);
    for (std::int64_t step = 0; step < steps[0]; ++step) {
      const Count from = std::min(end, begin + step * batch_size_), to = std::min(end, from + batch_size_);
      const auto seeds = nodes.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from));
      const BatchKey key{.seed = context_.seed, .epoch = 0, .step = static_cast<std::uint32_t>(step)};
      const sampling::MiniBatch batch = sampler.sample(seeds, key, 0, stream);
      const at::Tensor input =
          at::empty({batch.num_inputs(), cols}, at::TensorOptions().device(torch_device(device_)));
      fetcher.fetch({.ids = batch.input_nodes(), .count = batch.num_inputs()},
                    input.mutable_data_ptr<float>(), stream);
      context_.alive();
      if (seeds.empty()) continue;
      const at::Tensor logits =
          model.forward(input, batch, {.key = key, .training = false}).cpu().contiguous();
      for (std::size_t i = 0; i < seeds.size(); ++i) {
        const Count row = seeds[i] - context_.graph->host_view().first_node;
        board.add_label({logits.const_data_ptr<float>() + static_cast<Count>(i) * classes,
                         static_cast<std::size_t>(classes)},
                        labels.data() + row * manifest.label_words());
      }
    }
    return board.finish(communicator_);
  }

  EvaluationContext context_;
  std::vector<int> fanouts_;
  Count batch_size_;
  comm::Communicator communicator_;
  Device device_;
};

}  // namespace

std::unique_ptr<Evaluator> make_sampled_evaluator(const EvaluationContext& context,
                                                  const std::vector<int>& fanouts, Count batch_size) {
  return std::make_unique<SampledEvaluator>(context, fanouts, batch_size);
}

}  // namespace strata::train
