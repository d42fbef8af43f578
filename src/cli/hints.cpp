// SPDX-License-Identifier: Apache-2.0
#include "hints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <span>

namespace strata::cli {
namespace {

struct OptionHint {
  std::string_view typed, hint;
};

constexpr std::string_view kLayers = "--fanouts has one number per layer: 15,10,5 makes three layers.";
constexpr std::string_view kHidden = "Did you mean --hidden?";
constexpr std::string_view kRate = "Did you mean --lr?";
constexpr std::string_view kEpochs = "Did you mean --epochs?";
constexpr std::string_view kGraph =
    "Did you mean --graph? It takes the directory that strata-partition build wrote.";
constexpr std::string_view kRanks = "Each rank computes on one GPU: mpirun -n 4 strata-train ... uses four.";
constexpr std::string_view kOutput = "Did you mean --output?";
constexpr std::string_view kThreads = "The cores of a rank decide how many threads load batches.";
constexpr std::string_view kMeasured = "A run measures the best number itself.";
constexpr std::string_view kPlan = "strata-plan (in Python strata.plan) predicts what a run needs.";
constexpr std::string_view kStep = "Did you mean --lr-schedule step:UPDATES:FACTOR, such as step:1000:0.1?";
constexpr std::string_view kReport = "strata-report RUN writes it, from the folder of a run.";

constexpr auto kOptionHints = std::to_array<OptionHint>({
    {"num-layers", kLayers},
    {"n-layers", kLayers},
    {"layers", kLayers},
    {"num-neighbors", "Did you mean --fanouts?"},
    {"neighbors", "Did you mean --fanouts?"},
    {"hidden-channels", kHidden},
    {"hidden-dim", kHidden},
    {"num-hidden", kHidden},
    {"hidden-size", kHidden},
    {"learning-rate", kRate},
    {"num-epochs", kEpochs},
    {"n-epochs", kEpochs},
    {"max-epochs", kEpochs},
    {"tensorboard", kReport},
    {"report", kReport},
    {"mllog", kReport},
    {"wd", "Did you mean --weight-decay?"},
    {"bs", "Did you mean --batch-size?"},
    {"num-bases", "Did you mean --bases?"},
    {"use-node-embeddings", "Did you mean --learned-rows?"},
    {"embedding-dim", "Did you mean --learned-rows?"},
    {"sparse-lr", "Did you mean --learned-lr?"},
    {"sparse-optimizer-lr", "Did you mean --learned-lr?"},
    {"num-heads", "Did you mean --heads?"},
    {"dataset", kGraph},
    {"data", kGraph},
    {"input", kGraph},
    {"gpus", kRanks},
    {"num-gpus", kRanks},
    {"gpu", "Did you mean --device cuda?"},
    {"cuda", "Did you mean --device cuda?"},
    {"cpu", "Did you mean --device cpu?"},
    {"num-workers", kThreads},
    {"workers", kThreads},
    {"out", kOutput},
    {"save-dir", kOutput},
    {"log-dir", kOutput},
    {"early-stopping", "Did you mean --patience?"},
    {"amp", "Did you mean --precision bf16?"},
    {"fp16", "Did you mean --precision bf16?"},
    {"bf16", "Did you mean --precision bf16?"},
    {"scheduler", "Did you mean --lr-schedule?"},
    {"checkpoint", "Did you mean --resume, or --init-from?"},
    {"load", "Did you mean --resume, or --init-from?"},
    {"pretrained", "Did you mean --init-from?"},
    {"force", "Did you mean --overwrite?"},
    {"g", "Did you mean --graph?"},
    {"m", "Did you mean --model?"},
    {"e", kEpochs},
    {"o", kOutput},
    {"v", "Did you mean --version, or --log-level debug?"},
    {"verbose", "Did you mean --log-level debug, or --version all?"},
    {"color", "NO_COLOR=1 in the environment turns colors off, CLICOLOR_FORCE=1 turns them on."},
    {"tf32", "Did you mean --precision tf32?"},
    {"predictions", "strata-train predict RUN writes the logits of a trained model."},
    {"normalize-features", "strata-partition build has --normalize-features."},
    {"verify-parts", "All that is read of parts is verified."},
    {"labor-dependent", "Did you mean --sampler labor-dependent?"},
    {"lr-step-size", kStep},
    {"lr-gamma", kStep},
    {"host-threads", kThreads},
    {"loader-threads", kThreads},
    {"presample", kMeasured},
    {"batches-in-flight", kMeasured},
    {"plan-only", kPlan},
    {"cluster", kPlan},
    {"neighbor-exchange", "Did you mean --exchange?"},
    {"row-exchange", "Did you mean --exchange?"},
});

/// Words that stand where a command could, or that are commands of other programs.
constexpr auto kWordHints = std::to_array<OptionHint>({
    {"train", "Leave it out: strata-train --graph parts trains."},
    {"build",
     "Parts are built by another program: strata-partition build --input SPEC --parts 2 --output parts."},
    {"info", "Did you mean strata-partition info?"},
    {"resume", "Did you mean --resume RUN?"},
    {"eval", "Did you mean evaluate?"},
    {"test", "Did you mean evaluate?"},
    {"score", "Did you mean evaluate?"},
    {"infer", "Did you mean predict?"},
    {"inference", "Did you mean predict?"},
    {"help", "Did you mean --help?"},
    {"version", "Did you mean --version?"},
});

struct ValueHint {
  std::string_view option, typed, meant;
};

constexpr auto kValueHints = std::to_array<ValueHint>({
    {"model", "graphsage", "sage"},      {"model", "sageconv", "sage"},
    {"model", "gcnconv", "gcn"},         {"model", "gatconv", "gat"},
    {"model", "ginconv", "gin"},         {"device", "gpu", "cuda"},
    {"device", "cuda0", "cuda"},         {"device", "host", "cpu"},
    {"sampler-device", "gpu", "cuda"},   {"precision", "fp32", "f32"},
    {"precision", "float32", "f32"},     {"precision", "bfloat16", "bf16"},
    {"precision", "fp16", "bf16"},       {"precision", "f16", "bf16"},
    {"precision", "float16", "bf16"},    {"precision", "mixed", "bf16"},
    {"lr-schedule", "none", "constant"}, {"lr-schedule", "cosineannealing", "cosine"},
    {"lr-schedule", "steplr", "step"},   {"loss", "ce", "cross-entropy"},
    {"loss", "nll", "cross-entropy"},    {"loss", "bcewithlogits", "bce"},
    {"metric", "acc", "accuracy"},       {"metric", "f1", "macro_f1"},
    {"metric", "auc", "roc_auc"},        {"metric", "rocauc", "roc_auc"},
    {"sampler", "neighbor", "uniform"},  {"sampler", "random", "uniform"},
});

/// A word without case, dashes, underscores and colons: "Graph-SAGE" -> "graphsage".
std::string folded(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string find_hint(std::span<const OptionHint> hints, std::string_view name) {
  const std::string typed = folded(name);
  const auto found =
      std::ranges::find_if(hints, [&](const OptionHint& entry) { return folded(entry.typed) == typed; });
  return found == hints.end() ? std::string() : std::string(found->hint);
}

std::string hint_for_word(const std::string& word) {
  std::error_code ignored;
  if (std::filesystem::is_directory(word, ignored)) return fmt::format("Did you mean --graph {}?", word);
  if (word.ends_with(".toml")) return fmt::format("Did you mean --config {}?", word);
  const std::string hint = find_hint(kWordHints, word);
  return hint.empty() ? "Options begin with --; the numbers of a list have commas between them: 15,10,5."
                      : hint;
}

}  // namespace

std::string hint_for_option(std::string_view name) { return find_hint(kOptionHints, name); }

std::string hint_for_value(std::string_view option, std::string_view value) {
  const std::string typed = folded(value);
  const auto* const found = std::ranges::find_if(kValueHints, [&](const ValueHint& entry) {
    return entry.option == option && (entry.typed == typed || folded(entry.meant) == typed);
  });
  return found == kValueHints.end() ? std::string() : std::string(found->meant);
}

options::Hints train_hints() {
  return {.help = "strata-train --help all lists all options.",
          .for_option = hint_for_option,
          .for_word = hint_for_word,
          .for_value = hint_for_value};
}

}  // namespace strata::cli
