// SPDX-License-Identifier: Apache-2.0
// A GNN whose sampling and layers lie on other ranks than its head, trained through calls: README.md.
//   split_model GRAPH [EPOCHS]
#include <ATen/ops/cross_entropy_loss.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "layers.hpp"
#include "strata/cuda/device.hpp"
#include "strata/rpc/autograd.hpp"
#include "strata/rpc/optimizer.hpp"
#include "strata/rpc/remote_module.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"
#include "strata/util/error.hpp"

namespace {

using namespace strata;
using batches::Split;
using example::Head, example::Rows, example::SageLayer, example::Sampler;

constexpr int kLayers = 2;
constexpr std::int64_t kHidden = 64;

/// "worker1/cuda:1" or "worker1"; ranks take turns where there are fewer GPUs.
std::string place_of(int rank) {
  const int gpus = cuda::device_count();
  return gpus > 0 ? fmt::format("worker{}/cuda:{}", rank, rank % gpus) : fmt::format("worker{}", rank);
}

/// Every rank fetches rows from any other.
rpc::Options options_of(const comm::Communicator& ranks) {
  rpc::Options options;
  const int gpus = cuda::device_count();
  for (int peer = 0; gpus > 0 && peer < ranks.size(); ++peer)
    if (peer != ranks.rank())
      options.set_device_map(fmt::format("worker{}", peer), {{ranks.rank() % gpus, peer % gpus}});
  return options;
}

/// The sampler beside the first layer; the layers on the ranks from 1 on, the last rank having the rest; the
/// head on rank 0. On one rank, all of it there: the unsplit model.
class SplitModel {
 public:
  SplitModel(rpc::Agent& agent, const std::string& graph)
      : agent_(agent),
        sampler_(agent.remote<Sampler>(
            fmt::format("worker{}", rank_of_layer(0)),
            example::SamplerOptions{.graph = graph, .fanouts = std::vector<int>(kLayers, -1)})),
        shape_(sampler_.sync(&Sampler::shape)),
        head_(agent, place_of(0),
              example::LayerOptions{.in_cols = kHidden, .out_cols = shape_.classes, .seed = kLayers}) {
    for (int i = 0; i < kLayers; ++i)
      layers_.emplace_back(agent, place_of(rank_of_layer(i)),
                           example::LayerOptions{.in_cols = i == 0 ? shape_.features : kHidden,
                                                 .out_cols = kHidden,
                                                 .seed = static_cast<std::uint64_t>(i)});
  }

  std::vector<rpc::Ref<at::Tensor>> parameters() const {
    std::vector<rpc::Ref<at::Tensor>> all = head_.parameters();
    for (const auto& layer : layers_)
      for (const auto& parameter : layer.parameters()) all.push_back(parameter);
    return all;
  }

  std::int64_t begin(Split split, std::uint32_t epoch) {
    return sampler_.sync(&Sampler::begin, split, epoch);
  }

  struct Scores {
    at::Tensor classes;  ///< [seeds, classes]
    at::Tensor labels;
  };
  /// Of the next batch. Rows go from rank to rank; only those of the seeds come here.
  Scores forward(Split split) {
    rpc::Ref<Rows> rows = sampler_.remote(&Sampler::next, split);
    for (const auto& layer : layers_) rows = layer.forward_remote(rows);
    const Rows seeds = rows.to_here();
    return {.classes = head_.forward(seeds.values), .labels = seeds.labels};
  }

 private:
  int rank_of_layer(int i) const { return std::min(i + 1, agent_.size() - 1); }

  rpc::Agent& agent_;
  rpc::Ref<Sampler> sampler_;
  example::GraphShape shape_;
  rpc::RemoteModule<Head> head_;
  std::vector<rpc::RemoteModule<SageLayer>> layers_;
};

double train_epoch(const rpc::Agent& agent, SplitModel& model, const rpc::DistributedOptimizer& optimizer,
                   std::uint32_t epoch) {
  const std::int64_t steps = model.begin(Split::train, epoch);
  double sum = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    rpc::AutogradContext context(agent);
    const SplitModel::Scores scores = model.forward(Split::train);
    const at::Tensor loss = at::cross_entropy_loss(scores.classes, scores.labels);
    context.backward({loss});
    optimizer.step(context);
    sum += loss.item<double>();
  }
  return sum / static_cast<double>(steps);
}

double accuracy(SplitModel& model, Split split) {
  const std::int64_t steps = model.begin(split, 0);
  std::int64_t right = 0, all = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const SplitModel::Scores scores = model.forward(split);
    right += scores.classes.argmax(1).eq(scores.labels).sum().item<std::int64_t>();
    all += scores.labels.size(0);
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

void train(rpc::Agent& agent, const std::string& graph, std::uint32_t epochs) {
  SplitModel model(agent, graph);
  const rpc::DistributedOptimizer optimizer(agent, model.parameters(),
                                            {.kind = nn::OptimizerKind::adam, .learning_rate = 0.01});
  for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
    const double loss = train_epoch(agent, model, optimizer, epoch);
    fmt::print("epoch {:2}: loss {:.5f}, validation accuracy {:.4f}\n", epoch, loss,
               accuracy(model, Split::valid));
  }
  fmt::print("test accuracy {:.4f}\n", accuracy(model, Split::test));
}

void run_rank(const comm::Communicator& ranks, const std::string& graph, std::uint32_t epochs) {
  rpc::Registry registry;
  registry.constructor<Sampler, example::SamplerOptions>("Sampler");
  registry.method("Sampler::shape", &Sampler::shape).method("Sampler::begin", &Sampler::begin);
  registry.method("Sampler::next", &Sampler::next);
  rpc::register_module<SageLayer, example::LayerOptions>(registry, "SageLayer");
  rpc::register_module<Head, example::LayerOptions>(registry, "Head");
  rpc::Agent agent(ranks, fmt::format("worker{}", ranks.rank()), registry, options_of(ranks));
  if (ranks.rank() == 0) train(agent, graph, epochs);
  agent.shutdown();
}

std::uint32_t epochs_of(std::string_view text) {
  std::uint32_t epochs = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), epochs);
  if (error != std::errc{} || end != text.data() + text.size() || epochs == 0)
    throw InputError(fmt::format("'{}' is no number of epochs", text), "Give a number of at least 1.");
  return epochs;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const comm::World world(torch_ranks::backend_of_launcher(&argc, &argv));
    if (argc < 2 || argc > 3)
      throw InputError("split_model takes a graph and a number of epochs",
                       "split_model GRAPH [EPOCHS], with a GRAPH as for strata-train");
    run_rank(world.communicator(), argv[1], argc == 3 ? epochs_of(argv[2]) : 40);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}", format_error("split_model", error));
    return static_cast<int>(exit_code(error));
  }
}
