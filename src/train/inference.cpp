// SPDX-License-Identifier: Apache-2.0
#include "strata/train/inference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>

#include "evaluation/evaluators.hpp"
#include "evaluation/link_predictions.hpp"
#include "evaluation/logits_file.hpp"
#include "evaluation/prediction_file.hpp"
#include "load_graph.hpp"
#include "memory_error.hpp"
#include "run_context.hpp"
#include "step/learner.hpp"
#include "step/trained_weights.hpp"
#include "strata/nn/model.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"
#include "task/edge_targets.hpp"

namespace strata::train {
namespace {

void check(const InferenceRequest& request) {
  std::error_code ignored;
  if (!request.nodes.empty() && !std::filesystem::exists(request.nodes, ignored))
    throw InputError(fmt::format("--nodes {}: no such file", request.nodes), "Check the path.");
  if (request.logits.empty()) return;
  const bool known = request.logits.ends_with(".npy") || is_csv(request.logits);
  if (!known)
    throw InputError(
        fmt::format("--output {}: the name ends neither with .npy nor with .csv", request.logits),
        "Give logits.npy for NumPy, or logits.csv for text.");
  if (!can_write_file(request.logits))
    throw InputError(fmt::format("--output: cannot write {}", request.logits),
                     "Name a file in a folder that is there and that this user may write.");
}

/// Ids of the nodes of a split within their type, ascending; the first rank's. Collective.
std::vector<NodeId> nodes_of(NodeSplit split, const store::MachineGraph& graph, const TargetType& target,
                             RunContext& context) {
  const store::GraphView& view = graph.host_view();
  std::vector<NodeId> mine;
  const auto add = [&](std::span<const NodeId> nodes) {
    for (const NodeId v : nodes) mine.push_back(view.original_ids[v] - target.original_ids.first);
  };
  if (split == NodeSplit::train && context.first_rank()) add(graph.train_nodes());
  if (split == NodeSplit::valid && context.machine.rank() == 0) add(graph.valid_nodes());
  if (split == NodeSplit::test && context.machine.rank() == 0) add(graph.test_nodes());
  const std::string blob(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(NodeId));
  std::vector<NodeId> all;
  for (const std::string& part : context.communicator().gather(blob, 0)) {
    const std::size_t first = all.size(), count = part.size() / sizeof(NodeId);
    all.resize(first + count);
    std::copy_n(part.data(), part.size(), reinterpret_cast<char*>(all.data() + first));
  }
  std::ranges::sort(all);
  return all;
}

/// A use of a trained model on a graph, until its files are written.
class Inference {
 public:
  Inference(const TrainConfig& config, const InferenceRequest& request, const comm::World& world,
            StopListener& stop, const ModelFactory& make)
      : request_(request),
        weights_(TrainedWeights::read(request.run, config, world.communicator())),
        task_(make_task(config, weights_.facts())),
        context_(config, world, stop, *task_),
        graph_(load_graph(context_, GraphUse::inference, name_of_target())),
        target_(task_->of_links() ? all_types(graph_) : find_target(name_of_target(), graph_)),
        model_(make_model(context_, shape(), make)),
        rows_(make_learned_rows(context_, graph_.manifest())),
        evaluators_(context_, graph_, {.targets = task_->targets(graph_), .of = target_}, *model_,
                    rows_.get()) {
    context_.alive("loading the model");
    context_.communicator().together([&] { weights_.load_into(*model_, rows_.get()); });
    if (writes() && selects()) nodes_ = chosen_nodes();
  }

  InferenceResult execute() {
    Evaluation evaluation;
    LayerwiseEvaluator& exact = evaluators_.exact();
    if (!exact.fits(*model_,
                    writes() ? LayerwiseEvaluator::Nodes::predicted : LayerwiseEvaluator::Nodes::scored))
      throw OutOfMemory("the hidden rows of the nodes do not fit in memory",
                        "Use more machines, or ranks on machines with more memory.");
    if (!writes()) {
      evaluation = evaluators_.chosen().evaluate(*model_);
    } else if (request_.of_pairs()) {
      evaluation.stopped = !predict_pairs(evaluators_.links(), *model_, *task_, context_, graph_, request_);
    } else {
      const std::string all = path_of_all_logits(request_.logits, selects());
      evaluation = exact.predict(*model_, all);
      if (scores_links() && !evaluation.stopped) evaluation = evaluators_.chosen().evaluate(*model_);
      context_.communicator().together([&] {
        if (context_.first_rank() && !evaluation.stopped)
          finish_logits(all, request_.logits, nodes_, name_of_columns());
      });
    }
    context_.alive("closing");
    evaluators_.close();
    graph_.close(context_.machine);
    context_.close();
    return {.scored = !request_.of_pairs(),
            .valid = evaluation.valid,
            .test = evaluation.test,
            .stopped = evaluation.stopped};
  }

 private:
  const char* name_of_columns() const {
    if (task_->of_links()) return "output";
    return is_regression(context_.config.loss) ? "target" : "class";
  }
  /// A run without targets at hand writes the outputs of nodes alone.
  bool scores_links() const {
    return task_->of_links() && (task_->edge_targets() == nullptr || !task_->edge_targets()->path.empty());
  }
  bool writes() const { return !request_.logits.empty(); }
  bool selects() const { return !request_.nodes.empty() || request_.split != NodeSplit::all; }

  std::string name_of_target() const {
    return context_.config.target.empty() ? weights_.target() : context_.config.target;
  }

  /// The shape of a model for the graph; without labels it has as many classes as the run had.
  ModelShape shape() const {
    const graph::Manifest& manifest = graph_.manifest();
    const ModelShape trained = weights_.shape();
    const Count in_cols = input_cols(context_.config, manifest);
    const bool other_rows = trained.in_cols > 0 && in_cols != trained.in_cols;
    if (other_rows)
      throw InputError(fmt::format("the model of {} reads {} feature columns, but {} has {}", request_.run,
                                   trained.in_cols, context_.config.graph.text(), in_cols),
                       "Give a graph with the same feature columns as the one it was trained on.");
    const Count outputs = task_->output_cols(manifest);  // 0 without labels of the task
    if (outputs > 0 && trained.out_cols > 0 && outputs != trained.out_cols) {
      const bool targets = is_regression(context_.config.loss);
      const char* const what = targets ? "targets" : "classes";
      throw InputError(fmt::format("the model of {} {} {} {}, but {} has {}", request_.run,
                                   targets ? "predicts" : "distinguishes", trained.out_cols, what,
                                   context_.config.graph.text(), outputs),
                       fmt::format("Give a graph with the same {} as the one it was trained on.", what));
    }
    return {
        .in_cols = in_cols, .out_cols = outputs > 0 ? outputs : trained.out_cols, .types = manifest.types};
  }

  /// The nodes chosen on the first rank; all ranks throw if the list cannot be used. Collective.
  std::vector<NodeId> chosen_nodes() {
    if (request_.nodes.empty()) return nodes_of(request_.split, graph_, target_, context_);
    std::vector<NodeId> ids;
    context_.communicator().together([&] {
      if (context_.first_rank()) ids = read_node_ids("--nodes", request_.nodes, target_.original_ids.count);
    });
    return ids;
  }

  const InferenceRequest& request_;
  TrainedWeights weights_;
  std::unique_ptr<Task> task_;
  RunContext context_;
  store::MachineGraph graph_;
  TargetType target_;
  std::shared_ptr<nn::BlockModel> model_;
  std::unique_ptr<LearnedRows> rows_;
  Evaluators evaluators_;
  std::optional<std::vector<NodeId>> nodes_;  ///< nodes to write logits of, on the first rank; nothing: all
};

}  // namespace

TrainConfig inference_config(const TrainConfig& run) {
  TrainConfig config;
  config.model = run.model;
  config.own_model = run.own_model;
  config.aggregate = run.aggregate;
  config.hidden = run.hidden;
  config.heads = run.heads;
  config.residual = run.residual;
  config.fanouts = run.fanouts;
  config.relation_fanouts = run.relation_fanouts;
  config.target = run.target;
  config.bases = run.bases;
  config.learned_rows = run.learned_rows;
  config.sampler = run.sampler;
  config.replace = run.replace;
  config.feature_format = run.feature_format;
  config.task = run.task;
  config.relation = run.relation;
  config.decoder = run.decoder;
  config.targets = run.targets;
  config.negative_ends = run.negative_ends;
  config.edge_split = run.edge_split;
  config.eval_negatives = run.eval_negatives;
  config.loss = run.loss;
  config.scale_targets = run.scale_targets;
  config.metric = run.metric;
  config.seed = run.seed;
  config.batch_size = run.batch_size;
  return config;
}

InferenceResult infer(const TrainConfig& given, const InferenceRequest& request, const comm::World& world,
                      StopListener& stop, const ModelFactory& make_model) {
  TrainConfig config = settled(given);
  if (request.of_pairs()) config.targets.clear();  // nothing is scored
  world.communicator().together([&] {
    validate(config);
    check_pairs(config, request);
    if (!request.nodes.empty() && request.split != NodeSplit::all)
      throw InputError("--nodes contradicts --split", "Give one of them.");
    if (world.rank() == 0) check(request);
  });
  std::unique_ptr<Inference> inference;
  try {
    inference = std::make_unique<Inference>(config, request, world, stop, make_model);
    stop.loaded();
    return inference->execute();
  } catch (...) {
    if (world.size() > 1) (void)inference.release();  // it may wait for other ranks for ever
    rethrow_explained();
  }
}

}  // namespace strata::train
