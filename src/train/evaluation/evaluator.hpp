// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "strata/comm/machine.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/train/task.hpp"
#include "strata/util/ranges.hpp"
#include "strata/util/threads.hpp"

namespace strata::nn {
class BlockModel;
}

namespace strata::train {

class LearnedRows;
struct NodeChunk;

struct Evaluation {
  Scores valid, test;
  std::string test_details = {};  ///< ScoreBoard::details()
  double seconds = 0;
  bool stopped = false;  ///< a rank was asked to stop, so there are no scores
};

/// Scores a model on the validation and test nodes. Collective over all ranks; the result is the same on
/// each.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Ends early on all ranks if EvaluationContext::stop_requested says so on any of them.
  virtual Evaluation evaluate(nn::BlockModel& model) = 0;
  virtual void close() = 0;  ///< collective
};

/// Everything an evaluator reads; references must outlive it.
struct EvaluationContext {
  comm::Ranks ranks;
  const store::MachineGraph* graph = nullptr;
  const Task* task = nullptr;
  batches::SeedTargets targets = {};     ///< Task::targets() of the graph
  const LearnedRows* learned = nullptr;  ///< input rows of nodes without features; null: zeros
  /// Original ids of the nodes to predict; empty: all.
  Range target_ids = {};
  ThreadPool* pool = nullptr;
  std::uint64_t seed = 0;
  /// The sampling of training, or of sampled evaluation. If training chooses by weight, exact
  /// evaluation weighs neighbors in the layers whose fanout is not -1, or in all layers if there are no
  /// fanouts.
  sampling::SamplerOptions sampler = {};
  std::function<void()> alive;  ///< called after every piece of work, for watchdogs
  std::function<bool()> stop_requested = [] { return false; };  ///< for this rank; called between chunks
  /// Bytes that a chunk of nodes may take in exact evaluation; 0: depends on the device.
  Count chunk_bytes = 0;
  Count host_bytes = 0;  ///< exact evaluation: bytes that a machine's layers may take; 0: what is free
  /// Exact evaluation: if the scores need at most this share of all nodes, a layer is applied only to the
  /// needed nodes, else to all.
  double most_needed = 0.5;
};

/// Exact evaluation: applies layer after layer to all nodes with all their neighbors, so that no node is
/// computed twice. If only scores are wanted and they depend on few nodes, only those are computed.
///
/// Memory is bounded by the rows of two layers, of this machine's nodes, and by one chunk of nodes with a
/// limited number of edges. A longer list is read in pieces if the model allows it
/// (ModelTraits::takes_pieces). If a layer can sum projected rows (BlockModel::project) and these are
/// shorter, they are kept instead of its input. This is usually the last layer, so that three layers need one
/// table of hidden rows at a time. On the cpu of a single machine, a layer that takes dst rows apart
/// (ModelTraits::takes_dst_apart) reads the graph and the rows in place.
class LayerwiseEvaluator final : public Evaluator {
 public:
  explicit LayerwiseEvaluator(const EvaluationContext& context);
  ~LayerwiseEvaluator() override;
  Evaluation evaluate(nn::BlockModel& model) override;
  /// What is computed: what the scores depend on, or also what predict() needs.
  enum class Nodes { scored, predicted };
  /// Whether the layers of these nodes fit into the memory that is free now on every machine. Collective; the
  /// result is the same on all ranks.
  bool fits(const nn::BlockModel& model, Nodes nodes = Nodes::scored) const;
  /// Also writes the logits of EvaluationContext::target_ids, in their order: a NumPy file [nodes, classes] on
  /// a file system that all hosts share. No file is left if the evaluation was stopped.
  Evaluation predict(nn::BlockModel& model, const std::string& npy_path);
  /// Calls `consume` with the last layer's outputs of all nodes, in host memory; each rank gets some chunks.
  /// Returns false on all ranks if it was stopped. Collective.
  bool for_outputs(nn::BlockModel& model,
                   const std::function<void(const NodeChunk& chunk, const float* rows)>& consume);
  void close() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Sampled evaluation: in minibatches as in training, with EvaluationContext::sampler. A node's neighbors are
/// the same in every evaluation, for all numbers of ranks, machines and batches.
std::unique_ptr<Evaluator> make_sampled_evaluator(const EvaluationContext& context, Count batch_size);

}  // namespace strata::train
