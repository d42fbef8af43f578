// SPDX-License-Identifier: Apache-2.0
#include "step/trained_weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "step/learned_rows.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = "model";
constexpr const char* kInCols = "feature_cols";
constexpr const char* kOutCols = "classes";
constexpr const char* kTarget = "target";

/// The path of a run's model file. Throws InputError if there is none.
fs::path model_file(const std::string& run) {
  std::error_code ignored;
  if (fs::is_regular_file(run, ignored)) return run;
  if (!fs::is_directory(run, ignored))
    throw InputError(fmt::format("{}: no such directory", run),
                     "Name the folder of a run, such as runs/last, or its model.safetensors.");
  const fs::path path = fs::path(run) / "model.safetensors";
  if (!fs::exists(path, ignored))
    throw InputError(fmt::format("{}: the run has no model yet", run),
                     fmt::format("It has one after its first evaluation: strata-train --resume {}", run));
  return path;
}

}  // namespace

std::map<std::string, std::string> model_facts(const TrainConfig& config, const ModelShape& shape,
                                               const std::string& target, int epoch) {
  std::map<std::string, std::string> facts = {{"format", "pt"},
                                              {kModel, model_name(config)},
                                              {"aggregate", std::string(enum_name(config.aggregate))},
                                              {"heads", fmt::format("{}", fmt::join(config.heads, ","))},
                                              {"residual", config.residual ? "true" : "false"},
                                              {kInCols, std::to_string(shape.in_cols)},
                                              {kOutCols, std::to_string(shape.out_cols)},
                                              {"epoch", std::to_string(epoch)}};
  if (!target.empty()) facts[kTarget] = target;
  return facts;
}

TrainedWeights TrainedWeights::read(const std::string& run, const TrainConfig& config,
                                    const comm::Communicator& communicator) {
  TrainedWeights weights;
  std::string contents;
  communicator.together([&] {
    if (communicator.rank() > 0) return;
    weights.path_ = model_file(run).string();
    contents = read_file(weights.path_);
  });
  communicator.broadcast(weights.path_, 0);
  communicator.broadcast(contents, 0);
  communicator.together([&] {
    weights.file_ = nn::parse_tensors(contents, weights.path_);
    weights.require_model_of(config);
  });
  return weights;
}

void TrainedWeights::require_model_of(const TrainConfig& config) const {
  const auto kind = file_.metadata.find(kModel);
  if (kind == file_.metadata.end() || kind->second == model_name(config)) return;
  const bool comes_with_strata = std::ranges::any_of(enum_choices<nn::ModelKind>(),
                                                     [&](const auto& name) { return name == kind->second; });
  throw InputError(fmt::format("{} is a model {}, not {}", path_, kind->second, model_name(config)),
                   !comes_with_strata         ? "Call the program that trained it: it takes the same options."
                   : config.own_model.empty() ? fmt::format("Give --model {}.", kind->second)
                                              : "Call strata-train instead: it takes the same options.");
}

void TrainedWeights::load_into(torch::nn::Module& model, const LearnedRows* learned) const {
  if (learned != nullptr) {
    for (const nn::NamedTensor& rows : learned->weights()) {
      const at::Tensor& from = file_.at(rows.name, path_);
      if (from.sizes() != rows.tensor.sizes())
        throw InputError(fmt::format("{}: \"{}\" are rows of {} nodes, but the graph has {} of this type",
                                     path_, rows.name, from.size(0), rows.tensor.size(0)),
                         "Rows were learned for the nodes of one graph: give that graph.");
      at::Tensor(rows.tensor).copy_(from);
    }
  }
  nn::load_weights(model, file_, path_);
}

std::string TrainedWeights::target() const {
  const auto found = file_.metadata.find(kTarget);
  return found == file_.metadata.end() ? "" : found->second;
}

ModelShape TrainedWeights::shape() const {
  const auto number = [&](const char* name) {
    std::int64_t value = 0;
    const auto found = file_.metadata.find(name);
    if (found == file_.metadata.end()) return value;
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
    return value;
  };
  return {.in_cols = number(kInCols), .out_cols = number(kOutCols)};
}

}  // namespace strata::train
