// SPDX-License-Identifier: Apache-2.0
#include "task/target_scores.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "strata/util/label_shape.hpp"
#include "task/target_loss.hpp"

namespace strata::train {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

double mean(double sum, Count count) { return count == 0 ? kUndefined : sum / static_cast<double>(count); }

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace

Scores no_target_scores() {
  return {.values = {{.name = "rmse", .title = "RMSE", .higher_is_better = false},
                     {.name = "mae", .title = "MAE", .higher_is_better = false},
                     {.name = "r2", .title = "R2"}}};
}

TargetScoreBoard::TargetScoreBoard(LossChoice loss, std::vector<graph::TargetScale> scales)
    : loss_(loss), scales_(std::move(scales)), columns_(scales_.size()) {}

void TargetScoreBoard::add(std::span<const float> outputs, const std::int32_t* target) {
  double loss = 0;
  bool any = false;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (target[c] == kMissingTarget) continue;
    any = true;
    Column& column = columns_[c];
    const double wanted = (std::bit_cast<float>(target[c]) - scales_[c].mean) / scales_[c].deviation;
    const double error = static_cast<double>(outputs[c]) - wanted;
    ++column.nodes;
    column.targets.add(static_cast<float>(wanted));
    column.squares.add(static_cast<float>(wanted * wanted));
    column.squared_errors.add(static_cast<float>(error * error));
    column.absolute_errors.add(static_cast<float>(std::abs(error)));
    loss += loss_of_error(loss_, error);
  }
  if (!any) return;
  ++nodes_;
  losses_.add(static_cast<float>(loss / static_cast<double>(columns_.size())));
}

double TargetScoreBoard::Column::r2() const {
  constexpr double kRounding = 1e-6;
  const double sum = targets.value(), square = squares.value();
  const double spread = square - sum * mean(sum, nodes);
  return spread > kRounding * square ? 1 - squared_errors.value() / spread : kUndefined;
}

void TargetScoreBoard::add_up(const comm::Communicator& communicator) {
  communicator.all_reduce(std::span(&nodes_, 1));
  communicator.all_reduce(losses_.words());
  for (Column& column : columns_) {
    communicator.all_reduce(std::span(&column.nodes, 1));
    for (ExactSum* sum : {&column.targets, &column.squares, &column.squared_errors, &column.absolute_errors})
      communicator.all_reduce(sum->words());
  }
}

Scores TargetScoreBoard::finish(const ScoreWork& work) {
  add_up(*work.communicator);
  Count targets = 0, defined = 0;
  double squares = 0, magnitudes = 0, r2 = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const double unit = scales_[c].deviation;
    targets += columns_[c].nodes;
    squares += unit * unit * columns_[c].squared_errors.value();
    magnitudes += unit * columns_[c].absolute_errors.value();
    const double of_column = columns_[c].r2();
    if (std::isnan(of_column)) continue;
    r2 += of_column;
    ++defined;
  }
  if (columns_.size() > 1) details_ = describe_columns();
  Scores scores = no_target_scores();
  scores.nodes = nodes_;
  scores.loss = nodes_ == 0 ? 0 : mean(losses_.value(), nodes_);
  scores.values[0].value = std::sqrt(mean(squares, targets));
  scores.values[1].value = mean(magnitudes, targets);
  scores.values[2].value = mean(r2, defined);
  return scores;
}

std::string TargetScoreBoard::describe_columns() const {
  nlohmann::json columns = nlohmann::json::array();
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    const double unit = scales_[c].deviation;
    columns.push_back({{"nodes", column.nodes},
                       {"rmse", number(unit * std::sqrt(mean(column.squared_errors.value(), column.nodes)))},
                       {"mae", number(unit * mean(column.absolute_errors.value(), column.nodes))},
                       {"r2", number(column.r2())}});
  }
  return nlohmann::json{{"type", "targets"}, {"columns", std::move(columns)}}.dump();
}

}  // namespace strata::train
