// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.hpp"

#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/model_state.hpp"
#include "checkpoint/same_config.hpp"
#include "strata/nn/weights.hpp"
#include "strata/util/error.hpp"

namespace strata::train {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "strata-checkpoint";
constexpr int kVersion = 4;
constexpr const char* kBestRows = "best_learned.rows";

/// JSON has no NaN, but an undefined ROC AUC is NaN.
json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }
double number(const json& value) { return value.is_null() ? std::nan("") : value.get<double>(); }

json to_json(const Scores& scores) {
  json j{{"nodes", scores.nodes}, {"loss", number(scores.loss)}};
  for (const Score& score : scores.values) j[score.name] = number(score.value);
  return j;
}

/// Fills in the values; `scores` has their names.
void read_scores(const json& j, Scores& scores) {
  scores.nodes = j.at("nodes");
  scores.loss = number(j.at("loss"));
  for (Score& score : scores.values) score.value = number(j.at(score.name));
}

json to_json(const ProgressState& p) {
  return {{"epoch", p.epoch},
          {"evaluation_due", p.evaluation_due},
          {"evaluation_kind", enum_name(p.evaluation_kind)},
          {"step_in_epoch", p.step_in_epoch},
          {"loss_sum", p.loss_sum},
          {"correct", p.hits},
          {"seeds", p.seeds},
          {"best_epoch", p.best_epoch},
          {"best_valid", to_json(p.best_valid)},
          {"best_test", to_json(p.best_test)},
          {"evaluations_without_gain", p.evaluations_without_gain}};
}

void from_json(const json& j, ProgressState& p) {
  p.epoch = j.at("epoch");
  p.evaluation_due = j.at("evaluation_due");
  p.evaluation_kind =
      enum_value<EvaluationKind>(j.at("evaluation_kind").get<std::string>(), "evaluation_kind");
  p.step_in_epoch = j.at("step_in_epoch");
  p.loss_sum = j.at("loss_sum");
  p.hits = j.at("correct");
  p.seeds = j.at("seeds");
  p.best_epoch = j.at("best_epoch");
  read_scores(j.at("best_valid"), p.best_valid);
  read_scores(j.at("best_test"), p.best_test);
  p.evaluations_without_gain = j.at("evaluations_without_gain");
}

constexpr const char* kBatchSize = "global-batch-size";
constexpr const char* kGraph = "graph";

/// The remedy for options that differ from the checkpoint's.
std::string remedy_for(const json& saved, const json& wanted) {
  const auto differs = [&](const char* option) {
    return saved.value(option, json()) != wanted.value(option, json());
  };
  if (differs(kGraph))
    return "Resume with the same graph (its parts may be others), or start anew without --resume.";
  if (differs(kBatchSize) && saved.contains(kBatchSize))
    return fmt::format(
        "Give --global-batch-size {}, which any number of ranks can divide among them; or start "
        "anew without --resume.",
        saved[kBatchSize].dump());
  return "Leave such options out to continue the run as it was, or start anew without --resume.";
}

void check_signature(const std::filesystem::path& path, const json& saved, const json& wanted) {
  const std::string different = differences(wanted.dump(), saved.dump());
  if (different.empty()) return;
  throw InputError(fmt::format("{} is of another run: {}", path.string(), different),
                   remedy_for(saved, wanted));
}

void copy_into(const std::filesystem::path& path, const nn::TensorFile& file, const std::string& name,
               at::Tensor to) {
  const at::Tensor& from = file.at(name, path);
  if (from.sizes() != to.sizes()) {
    throw InputError(
        fmt::format("{}: \"{}\" has {} elements, this run {}", path.string(), name, from.numel(), to.numel()),
        "Resume with the graph and options of the first run, or start anew without --resume.");
  }
  to.copy_(from);
}

}  // namespace

std::string with_graph(const std::string& signature, const graph::Manifest& manifest,
                       const std::string& digest) {
  json both = json::parse(signature);
  both[kGraph] = {{"digest", digest},
                  {"nodes", manifest.book.num_nodes()},
                  {"edges", manifest.num_edges},
                  {"training nodes", manifest.num_train}};
  return both.dump();
}

std::string format_checkpoint(const CheckpointParts& parts) {
  nn::TensorFile file;
  file.tensors.push_back({"parameters", parts.parameters->values().detach()});
  for (const auto& state : parts.optimizer->state())
    file.tensors.push_back({"optimizer." + state.name, state.tensor});
  for (const auto& buffer : buffers_of(*parts.model))
    file.tensors.push_back({"buffer." + buffer.name, buffer.tensor});
  if (parts.learned != nullptr)
    for (const auto& state : parts.learned->state())
      file.tensors.push_back({"learned." + state.name, state.tensor});
  if (parts.progress->best_rows.defined()) file.tensors.push_back({kBestRows, parts.progress->best_rows});
  if (parts.progress->best_parameters.defined()) {
    file.tensors.push_back({"best_parameters", parts.progress->best_parameters});
    for (const auto& buffer : parts.progress->best_buffers)
      file.tensors.push_back({"best_buffer." + buffer.name, buffer.tensor});
  }
  file.metadata = {{"format", kFormat},
                   {"version", std::to_string(kVersion)},
                   {"signature", parts.signature},
                   {"progress", to_json(*parts.progress).dump()}};
  return nn::format_tensors(file);
}

void restore_checkpoint(std::string_view contents, const std::filesystem::path& path,
                        const CheckpointParts& parts) {
  const nn::TensorFile file = nn::parse_tensors(contents, path);
  const auto field = [&](const std::string& name) -> const std::string& {
    const auto found = file.metadata.find(name);
    if (found == file.metadata.end()) {
      throw InputError(fmt::format("{}: not a checkpoint of strata-train (no \"{}\")", path.string(), name),
                       "Give --output the folder of the run to resume, or start anew without --resume.");
    }
    return found->second;
  };
  if (field("format") != kFormat || field("version") != std::to_string(kVersion)) {
    throw InputError(fmt::format("{}: format {} version {} is not known here", path.string(), field("format"),
                                 field("version")),
                     "Resume with the version of Strata that wrote it.");
  }
  if (!file.hashed)
    throw InputError(fmt::format("{}: damaged checkpoint: its hashes are missing", path.string()),
                     "Start anew without --resume.");
  try {
    check_signature(path, json::parse(field("signature")), json::parse(parts.signature));
    from_json(json::parse(field("progress")), *parts.progress);
  } catch (const json::exception& e) {
    throw InputError(fmt::format("{}: damaged checkpoint: {}", path.string(), e.what()),
                     "Start anew without --resume.");
  }
  copy_into(path, file, "parameters", parts.parameters->values());
  for (const auto& state : parts.optimizer->state())
    copy_into(path, file, "optimizer." + state.name, state.tensor);
  for (const auto& buffer : buffers_of(*parts.model))
    copy_into(path, file, "buffer." + buffer.name, buffer.tensor);
  if (parts.learned != nullptr)
    for (const auto& state : parts.learned->state())
      copy_into(path, file, "learned." + state.name, state.tensor);
  if (parts.progress->best_epoch > 0) {
    if (parts.learned != nullptr) parts.progress->best_rows = file.at(kBestRows, path);
    parts.progress->best_parameters = at::empty_like(parts.parameters->values());
    copy_into(path, file, "best_parameters", parts.progress->best_parameters);
    parts.progress->best_buffers = copies_of(buffers_of(*parts.model));
    for (const auto& buffer : parts.progress->best_buffers)
      copy_into(path, file, "best_buffer." + buffer.name, buffer.tensor);
  }
}

}  // namespace strata::train
