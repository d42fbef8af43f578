// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "strata/comm/machine.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/train/metrics.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::nn {
class BlockModel;
}

namespace strata::train {

class PredictionFile;

struct Evaluation {
  Scores valid, test;
  double seconds = 0;
  bool stopped = false;  ///< a rank was asked to stop: there are no scores
};

/// Scores a model on the validation and test nodes. Collective over all ranks; the same result on each.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Ends early, on all ranks alike, if EvaluationContext::stop_requested says so on any of them.
  virtual Evaluation evaluate(nn::BlockModel& model) = 0;
  virtual void close() = 0;  ///< collective
};

/// Everything an evaluator reads; references must outlive it.
struct EvaluationContext {
  const comm::Communicator* world = nullptr;
  const comm::Topology* topology = nullptr;
  const comm::Machine* machine = nullptr;
  const store::MachineGraph* graph = nullptr;
  ThreadPool* pool = nullptr;
  std::uint64_t seed = 0;
  /// How training samples. Sampled evaluation chooses in the same way; exact evaluation weighs neighbors
  /// where training chooses by weight, in the layers of a fanout that is not -1. Without fanouts: in all.
  sampling::SamplerOptions sampler = {};
  bool roc_auc = true;          ///< ScoreOptions::roc_auc
  std::function<void()> alive;  ///< called after every piece of work, for watchdogs
  std::function<bool()> stop_requested = [] { return false; };  ///< of this rank; asked between chunks
  Count chunk_bytes = 0;  ///< of exact evaluation: what a chunk of nodes may take; 0: by device
  Count host_bytes = 0;   ///< of exact evaluation: what a machine's layers may take; 0: what is free
  /// Of exact evaluation: the share of all nodes up to which a layer is applied to those that the scores
  /// need, above which to all.
  double most_needed = 0.5;
};

/// Exact: applies layer by layer to all nodes with all their neighbors, so that no node is computed twice;
/// for scores alone to those nodes that the validation and test nodes depend on, where these are few.
/// Memory is bounded: two layers' rows of such nodes of this machine, and one chunk of nodes whose edges are
/// limited; a longer list is read in pieces, where the model can (ModelTraits::takes_pieces). A layer that
/// can sum projected rows (BlockModel::project), which are shorter, has those kept
/// instead of its input: usually the last, so that three layers need one table of hidden rows at a time.
/// On the cpu of one machine, a layer that takes dst rows apart (ModelTraits::takes_dst_apart) reads the graph
/// and the rows where they lie.
class LayerwiseEvaluator final : public Evaluator {
 public:
  explicit LayerwiseEvaluator(const EvaluationContext& context);
  ~LayerwiseEvaluator() override;
  Evaluation evaluate(nn::BlockModel& model) override;
  enum class Nodes { scored, all };  ///< those that the scores depend on; those of predict()
  /// Whether the layers of these nodes have room on every machine, as it is free now. Collective; the same on
  /// all ranks.
  bool fits(const nn::BlockModel& model, Nodes nodes = Nodes::scored) const;
  /// Also writes the logits of all nodes, by original id; `file` is [num_nodes, classes] and incomplete if
  /// the evaluation was stopped.
  Evaluation predict(nn::BlockModel& model, PredictionFile& file);
  /// The same with a file of this name, which must lie on a file system that all hosts share. No file is left
  /// if the evaluation was stopped.
  Evaluation predict(nn::BlockModel& model, const std::string& npy_path);
  void close() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Sampled: the minibatch way of training, with its sampler and fanouts of its own. A node's neighbors are
/// the same in every evaluation, whatever the ranks, machines and batches.
std::unique_ptr<Evaluator> make_sampled_evaluator(const EvaluationContext& context,
                                                  const std::vector<int>& fanouts, Count batch_size);

}  // namespace strata::train
