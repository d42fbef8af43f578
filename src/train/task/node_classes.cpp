// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "strata/train/config.hpp"
#include "strata/train/task.hpp"
#include "strata/util/error.hpp"
#include "strata/util/label_sets.hpp"
#include "task/class_loss.hpp"
#include "task/class_scores.hpp"
#include "task/class_weights.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

/// Training nodes of each class. Collective.
std::vector<Count> count_classes(const store::MachineGraph& graph, const comm::Ranks& ranks) {
  std::vector<std::int64_t> counts(at(graph.manifest().num_classes));
  const store::GraphView& view = graph.host_view();
  const batches::SeedTargets labels = batches::labels_of(graph);
  for (const NodeId v : ranks.machine->rank() == 0 ? graph.train_nodes() : std::span<const NodeId>()) {
    if (!view.owns(v)) continue;
    const Count row = v - view.first_node;
    if (!labels.has(row)) continue;
    if (!graph.manifest().multi_label) {
      ++counts[at(*labels.of(row))];
      continue;
    }
    for (std::size_t c = 0; c < counts.size(); ++c)
      counts[c] += has_class(labels.of(row), static_cast<Count>(c));
  }
  ranks.world->all_reduce(std::span(counts));
  return counts;
}

class NodeClasses final : public Task {
 public:
  explicit NodeClasses(const TrainConfig& config) : config_(config) {}
  void require(const TaskInput& input) const override;
  Count output_cols(const graph::Manifest& manifest) const override { return manifest.num_classes; }
  batches::SeedTargets targets(const store::MachineGraph& graph) const override {
    return graph.manifest().targets.empty() ? batches::labels_of(graph) : batches::SeedTargets();
  }
  std::unique_ptr<Loss> make_loss(const store::MachineGraph& graph, const comm::Ranks& ranks) const override;
  std::unique_ptr<ScoreBoard> make_board(const graph::Manifest& manifest, Count outputs) const override;
  Scores no_scores() const override { return no_class_scores(); }
  std::string metric() const override { return std::string(enum_name(chosen_metric(config_))); }

 private:
  const TrainConfig& config_;
};

void NodeClasses::require(const TaskInput& input) const {
  if (input.targets > 0)
    throw InputError(fmt::format("--loss {} predicts classes, but {} has targets of regression",
                                 enum_name(config_.loss.kind), input.graph),
                     "Use --loss mse, mae or huber.");
  if (input.num_classes == 1 && !input.multi_label) {
    throw InputError(
        fmt::format("{}: all labels of the graph are one class, and there is nothing to learn", input.graph),
        "Build it from an input whose labels have two classes or more.");
  }
  if (input.num_classes < 1) {
    throw InputError(fmt::format("{}: the graph has no labels", input.graph),
                     "Build it from an input with node labels.");
  }
  if (input.multi_label && config_.loss == LossKind::cross_entropy) {
    throw InputError(fmt::format("--loss {} needs one class per node, but nodes of {} may have several",
                                 enum_name(config_.loss.kind), input.graph),
                     "Use --loss bce or focal.");
  }
  if (config_.metric == Metric::roc_auc && input.num_classes != 2 && !input.multi_label) {
    throw InputError(
        fmt::format("--metric roc_auc needs two classes; {} has {}", input.graph, input.num_classes),
        "Use --metric accuracy or macro_f1.");
  }
}

std::unique_ptr<Loss> NodeClasses::make_loss(const store::MachineGraph& graph,
                                             const comm::Ranks& ranks) const {
  ClassLossOptions options{.kind = config_.loss,
                           .label_smoothing = config_.label_smoothing,
                           .multi_label = graph.manifest().multi_label};
  if (config_.class_weights == kBalanced)
    options.class_weights = balanced_weights(count_classes(graph, ranks));
  else if (!config_.class_weights.empty())
    options.class_weights = parse_class_weights(config_.class_weights);
  return std::make_unique<ClassLoss>(options, graph.manifest().num_classes, torch_device(ranks.device()));
}

std::unique_ptr<ScoreBoard> NodeClasses::make_board(const graph::Manifest& manifest, Count outputs) const {
  return std::make_unique<ClassScoreBoard>(ClassScoreOptions{.num_classes = outputs,
                                                             .multi_label = manifest.multi_label,
                                                             .roc_auc = config_.metric == Metric::roc_auc});
}

}  // namespace

std::unique_ptr<Task> make_node_classes(const TrainConfig& config) {
  return std::make_unique<NodeClasses>(config);
}

}  // namespace strata::train
