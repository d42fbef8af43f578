// SPDX-License-Identifier: Apache-2.0
#include "strata/train/config.hpp"
#include "strata/train/task.hpp"
#include "task/link_scores.hpp"
#include "type_choices.hpp"

namespace strata::train {
namespace {

class LinkPrediction final : public Task {
 public:
  explicit LinkPrediction(const TrainConfig& config) : config_(config) {}
  void require(const TaskInput&) const override {}
  bool of_links() const override { return true; }
  Count output_cols(const graph::Manifest& manifest) const override {
    return output_cols_for_decoder(config_, manifest);
  }
  batches::SeedTargets targets(const store::MachineGraph&) const override { return {}; }
  std::unique_ptr<Loss> make_loss(const store::MachineGraph&, const comm::Ranks&) const override {
    return nullptr;
  }
  std::unique_ptr<ScoreBoard> make_board(const graph::Manifest&, Count) const override { return nullptr; }
  Scores no_scores() const override { return no_link_scores(); }
  std::string metric() const override { return std::string(enum_name(chosen_metric(config_))); }

 private:
  const TrainConfig& config_;
};

}  // namespace

std::unique_ptr<Task> make_link_prediction(const TrainConfig& config) {
  return std::make_unique<LinkPrediction>(config);
}

}  // namespace strata::train
