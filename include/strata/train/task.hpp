// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/batches/pipeline.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/comm/machine.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::train {

/// One number that measures how good a model is.
struct Score {
  std::string name;        ///< in records: "macro_f1"
  std::string title = {};  ///< in tables: "macro F1"
  double value = 0;        ///< NaN: not defined
  bool higher_is_better = true;

  bool operator==(const Score&) const = default;
};

/// Scores of one split over all ranks.
struct Scores {
  Count nodes = 0;  ///< with a target; or links
  double loss = 0;  ///< the mean
  std::vector<Score> values = {};
  std::string counted = "nodes";  ///< what they count, in tables

  /// The value of a score; NaN for a name that is not among them.
  double of(std::string_view name) const;
  /// Whether the model with these validation scores replaces the one with `best`, because this score is
  /// better. NaN loses to every number and beats nothing. Without validation nodes the latest model is the
  /// best.
  bool beats(const Scores& best, std::string_view name) const;
};

/// "0.8125"; "-" for a score that is not defined.
std::string score_text(double score);

/// The scores of both splits as a table for people, below a title.
std::string scores_table(const std::string& title, const Scores& valid, const Scores& test);

struct TrainConfig;

/// The function that a step minimizes: the sum of the seeds' losses, divided by the seeds of all ranks.
class Loss {
 public:
  virtual ~Loss() = default;
  struct Result {
    at::Tensor gradient;  ///< [seeds, output_cols] f32: gradient of sum / total with respect to the outputs
    /// [3] f32: the sum of the losses; the sum of the seeds' hits, 1 for a seed that is right and 0 for one
    /// that is wrong; the number of seeds with a target.
    at::Tensor outcome;
  };
  /// outputs [seeds, output_cols] f32; targets [seeds, words of a target] i32, some of which may be missing;
  /// total [] f32, all on the loss's device. Everything stays there: the host reads no value. On a GPU, it is
  /// recorded as a part of the step, on libtorch's current stream.
  virtual Result operator()(const at::Tensor& outputs, const at::Tensor& targets,
                            const at::Tensor& total) const = 0;
};

/// Resources for ScoreBoard::finish() to add up the scores of all ranks.
struct ScoreWork {
  const comm::Communicator* communicator = nullptr;
  ThreadPool* pool = nullptr;
  std::function<void()> alive = [] {};  ///< called after every piece of work, for watchdogs
};

struct EdgeTargets;  // task/edge_targets.hpp

/// Collects the predictions of one split on this rank; finish() adds up those of all ranks.
class ScoreBoard {
 public:
  virtual ~ScoreBoard() = default;
  /// Adds a node: what the model computed for it, and the words of its target. Does nothing where the target
  /// is missing.
  virtual void add(std::span<const float> outputs, const std::int32_t* target) = 0;
  /// The scores over all ranks. Call it only once, because it consumes the predictions. Collective; the
  /// result is the same on all ranks.
  virtual Scores finish(const ScoreWork& work) = 0;
  /// Further facts about these predictions, as a JSON object for metrics.jsonl; empty: none. Call it
  /// after finish().
  virtual std::string details() const { return {}; }
};

/// The data of a graph that a task can learn from.
struct TaskInput {
  std::string graph;  ///< as the user named it
  Count num_classes = 0, num_train = 0, num_valid = 0;
  bool multi_label = false;
  Count targets = 0;  ///< columns of targets of regression; 0: labels are classes
};

/// The metadata of a model's file.
using ModelFacts = std::map<std::string, std::string>;

/// The goal of a run: where the targets of its seeds come from, how wide a model's output is, what a step
/// minimizes and what a model is scored by. Derive from it for a task of your own, and give it to train().
/// All calls give the same on every rank.
class Task {
 public:
  virtual ~Task() = default;
  /// Throws InputError for a graph that it cannot learn from. Called before anything large is read.
  virtual void require(const TaskInput& input) const = 0;
  virtual Count output_cols(const graph::Manifest& manifest) const = 0;
  /// The targets of this machine's nodes; called once per run. What they view lives as long as the graph, or
  /// the task.
  virtual batches::SeedTargets targets(const store::MachineGraph& graph) const = 0;
  /// Collective over `ranks`.
  virtual std::unique_ptr<Loss> make_loss(const store::MachineGraph& graph,
                                          const comm::Ranks& ranks) const = 0;
  /// `outputs`: columns of the model's output.
  virtual std::unique_ptr<ScoreBoard> make_board(const graph::Manifest& manifest, Count outputs) const = 0;
  /// The scores that its boards give, all 0.
  virtual Scores no_scores() const = 0;
  /// The name of the score that the best epoch is chosen by.
  virtual std::string metric() const = 0;
  /// Whether seeds are edges instead of nodes. A decoder computes what is learned from a model's outputs. Without
  /// edge_targets(), edges are told from negatives by LinkLoss, and scored by LinkScoreBoard: the task has neither
  /// a Loss nor a ScoreBoard then.
  virtual bool of_links() const { return false; }
  /// The targets of edges; null: they have none.
  virtual const EdgeTargets* edge_targets() const { return nullptr; }
  virtual Count decoder_cols() const { return 1; }  ///< what a decoder computes for an edge
  /// Whether its losses count hits, so that records have the share of right seeds.
  virtual bool counts_hits() const { return true; }
  /// Turns a node's outputs, in place, into what is written as its prediction.
  virtual void to_prediction(std::span<float> outputs, const graph::Manifest& manifest) const {
    (void)outputs, (void)manifest;
  }
  /// What the file of a model keeps for predictions of other graphs.
  virtual ModelFacts facts(const graph::Manifest& manifest) const {
    (void)manifest;
    return {};
  }
};

/// The task of predicting a node's class, or set of classes, from a graph's labels. The config, which
/// outlives it, names the loss and the metric; the scores are accuracy, macro_f1 and roc_auc.
std::unique_ptr<Task> make_node_classes(const TrainConfig& config);

/// The task of predicting numbers of nodes: regression. The config names the loss, the metric, and whether a
/// model learns targets scaled to mean 0 and deviation 1; the scores are rmse, mae and r2. `facts` of a model
/// that was trained before have its scale.
std::unique_ptr<Task> make_node_targets(const TrainConfig& config, const ModelFacts& facts = {});

/// The task of predicting edges: a decoder scores pairs by rows that a model computes for their ends. The scores
/// are mrr, hits_10 and roc_auc.
std::unique_ptr<Task> make_link_prediction(const TrainConfig& config);

/// The task of predicting classes or numbers of edges, from a file of targets; without a file, `facts` of a trained
/// model have their shape. The scores are those of nodes; of two classes also roc_auc and ap. Throws InputError.
std::unique_ptr<Task> make_edge_targets(const TrainConfig& config, const ModelFacts& facts = {});

/// The task that the config's task and loss mean; `facts` as above.
std::unique_ptr<Task> make_task(const TrainConfig& config, const ModelFacts& facts = {});

}  // namespace strata::train
