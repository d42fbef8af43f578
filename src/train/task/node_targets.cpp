// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "strata/train/config.hpp"
#include "strata/train/task.hpp"
#include "strata/util/error.hpp"
#include "task/target_loss.hpp"
#include "task/target_scales.hpp"
#include "task/target_scores.hpp"
#include "torch_device.hpp"

namespace strata::train {
namespace {

class NodeTargets final : public Task {
 public:
  NodeTargets(const TrainConfig& config, TargetScales learned)
      : config_(config), learned_(std::move(learned)) {}
  void require(const TaskInput& input) const override;
  Count output_cols(const graph::Manifest& manifest) const override { return std::ssize(manifest.targets); }
  batches::SeedTargets targets(const store::MachineGraph& graph) const override {
    return graph.manifest().targets.empty() ? batches::SeedTargets() : batches::labels_of(graph);
  }
  std::unique_ptr<Loss> make_loss(const store::MachineGraph& graph, const comm::Ranks& ranks) const override {
    return std::make_unique<TargetLoss>(config_.loss, scales(graph.manifest()), torch_device(ranks.device()));
  }
  std::unique_ptr<ScoreBoard> make_board(const graph::Manifest& manifest, Count) const override {
    return std::make_unique<TargetScoreBoard>(config_.loss, scales(manifest));
  }
  Scores no_scores() const override { return no_target_scores(); }
  std::string metric() const override { return std::string(enum_name(chosen_metric(config_))); }
  bool counts_hits() const override { return false; }
  void to_prediction(std::span<float> outputs, const graph::Manifest& manifest) const override {
    to_units(scales(manifest), outputs);
  }
  ModelFacts facts(const graph::Manifest& manifest) const override {
    ModelFacts facts;
    add_scales(scales(manifest), facts);
    return facts;
  }

 private:
  /// The scale of a column that the model learns or has learned.
  graph::TargetScale scale(const graph::Manifest& manifest, std::size_t column) const {
    if (!learned_.empty()) return learned_.at(column);
    return config_.scale_targets ? manifest.targets.at(column) : graph::TargetScale{};
  }
  TargetScales scales(const graph::Manifest& manifest) const {
    TargetScales all;
    for (std::size_t c = 0; c < (learned_.empty() ? manifest.targets : learned_).size(); ++c)
      all.push_back(scale(manifest, c));
    return all;
  }

  const TrainConfig& config_;
  TargetScales learned_;  ///< of a model that was trained before; empty: those of the graph
};

void NodeTargets::require(const TaskInput& input) const {
  if (input.targets > 0) return;
  throw InputError(
      fmt::format("--loss {} needs targets of regression, but {} has {}", enum_name(config_.loss.kind),
                  input.graph, input.num_classes > 0 ? "classes" : "no labels"),
      "Build it from an input with targets (strata-partition build --targets FILE), or use --loss "
      "cross-entropy.");
}

}  // namespace

std::unique_ptr<Task> make_node_targets(const TrainConfig& config, const ModelFacts& facts) {
  return std::make_unique<NodeTargets>(config, read_scales(facts));
}

std::unique_ptr<Task> make_task(const TrainConfig& config, const ModelFacts& facts) {
  if (config.task == TaskKind::link) return make_link_prediction(config);
  if (config.task == TaskKind::edge) return make_edge_targets(config, facts);
  return is_regression(config.loss) ? make_node_targets(config, facts) : make_node_classes(config);
}

}  // namespace strata::train
