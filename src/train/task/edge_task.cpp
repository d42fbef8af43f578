// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "strata/train/config.hpp"
#include "strata/train/task.hpp"
#include "strata/util/error.hpp"
#include "strata/util/label_shape.hpp"
#include "task/average_precision.hpp"
#include "task/class_loss.hpp"
#include "task/class_scores.hpp"
#include "task/edge_targets.hpp"
#include "task/target_loss.hpp"
#include "task/target_scales.hpp"
#include "task/target_scores.hpp"
#include "torch_device.hpp"
#include "type_choices.hpp"

namespace strata::train {
namespace {

constexpr const char* kClasses = "edge_classes";  // in a model's file

/// The scores of two classes, with the average precision of class 1.
class TwoClassBoard final : public ScoreBoard {
 public:
  void add(std::span<const float> logits, const std::int32_t* target) override {
    board_.add(logits, target);
    if (*target >= 0) (*target == 1 ? scores_.positives : scores_.negatives).push_back(logits[1] - logits[0]);
  }
  Scores finish(const ScoreWork& work) override {
    Scores scores = board_.finish(work);
    scores.values.push_back(
        {.name = "ap", .title = "AP", .value = average_precision(scores_, *work.communicator)});
    return scores;
  }
  std::string details() const override { return board_.details(); }

 private:
  ClassScoreBoard board_{{.num_classes = 2}};
  ClassScores scores_;
};

class EdgeTask final : public Task {
 public:
  EdgeTask(const TrainConfig& config, const ModelFacts& facts)
      : config_(config), numbers_(is_regression(config.loss)), scales_(read_scales(facts)) {
    if (!config.targets.empty()) targets_ = read_edge_targets(config.targets, numbers_);
    const auto found = facts.find(kClasses);
    if (targets_.path.empty() && found != facts.end())
      std::from_chars(found->second.data(), found->second.data() + found->second.size(), targets_.classes);
    if (targets_.path.empty() && numbers_) targets_.cols = std::max<Count>(1, std::ssize(scales_));
  }

  bool of_links() const override { return true; }
  const EdgeTargets* edge_targets() const override { return &targets_; }
  Count decoder_cols() const override { return numbers_ ? targets_.cols : targets_.classes; }
  void require(const TaskInput&) const override { targets_.require_file(); }
  Count output_cols(const graph::Manifest& manifest) const override {
    return output_cols_for_decoder(config_, manifest);
  }
  batches::SeedTargets targets(const store::MachineGraph&) const override { return {}; }
  std::unique_ptr<Loss> make_loss(const store::MachineGraph& graph, const comm::Ranks& ranks) const override {
    const at::Device device = torch_device(ranks.device());
    if (!numbers_)
      return std::make_unique<ClassLoss>(
          ClassLossOptions{.kind = config_.loss, .label_smoothing = config_.label_smoothing},
          targets_.classes, device);
    if (scales_.empty()) scales_ = scales_of(graph, ranks);
    return std::make_unique<TargetLoss>(config_.loss, scales_, device);
  }
  std::unique_ptr<ScoreBoard> make_board(const graph::Manifest&, Count outputs) const override {
    if (numbers_) return std::make_unique<TargetScoreBoard>(config_.loss, scales_);
    if (outputs == 2) return std::make_unique<TwoClassBoard>();
    return std::make_unique<ClassScoreBoard>(ClassScoreOptions{.num_classes = outputs});
  }
  Scores no_scores() const override {
    Scores scores = numbers_ ? no_target_scores() : no_class_scores();
    if (!numbers_ && targets_.classes == 2) scores.values.push_back({.name = "ap", .title = "AP"});
    scores.counted = "edges";
    return scores;
  }
  std::string metric() const override { return std::string(enum_name(chosen_metric(config_))); }
  bool counts_hits() const override { return !numbers_; }
  void to_prediction(std::span<float> outputs, const graph::Manifest&) const override {
    if (numbers_) to_units(scales_, outputs);
  }
  ModelFacts facts(const graph::Manifest&) const override {
    ModelFacts facts;
    if (numbers_)
      add_scales(scales_, facts);
    else
      facts[kClasses] = std::to_string(targets_.classes);
    return facts;
  }

 private:
  /// Means and deviations of the targets of training. Collective.
  TargetScales scales_of(const store::MachineGraph& graph, const comm::Ranks& ranks) const {
    TargetScales scales(at(targets_.cols));
    if (!config_.scale_targets) return scales;
    const LinkTypes types(config_, graph.manifest());
    const std::vector<Link> links = listed_links(graph, types, ranks);
    targets_.require(links, types);
    for (std::size_t c = 0; c < scales.size(); ++c) {
      double count = 0, sum = 0, squares = 0;
      const auto for_each = [&](const auto& use) {
        for (const Link& link : links)
          if (const std::int32_t word = targets_.of(link, types)[c]; word != kMissingTarget)
            use(static_cast<double>(std::bit_cast<float>(word)));
      };
      for_each([&](double value) { sum += value, ++count; });
      const double mean = count > 0 ? sum / count : 0;
      for_each([&](double value) { squares += (value - mean) * (value - mean); });
      const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
      scales[c] = {.mean = mean, .deviation = deviation > 0 ? deviation : 1};
    }
    return scales;
  }

  const TrainConfig& config_;
  bool numbers_;
  EdgeTargets targets_;
  mutable TargetScales scales_;  // made with the loss, or those of a trained model; the same on all ranks
};

}  // namespace

std::unique_ptr<Task> make_edge_targets(const TrainConfig& config, const ModelFacts& facts) {
  return std::make_unique<EdgeTask>(config, facts);
}

}  // namespace strata::train
