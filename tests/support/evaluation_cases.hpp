// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/evaluator.hpp"
#include "strata/graph/graph.hpp"
#include "strata/nn/model.hpp"
#include "strata/train/config.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::test {

/// A random graph with hubs: node 0 has `hub_edges` in-edges, some of them from itself; the edges of node 1
/// all have weight 0. A quarter of all other edges have weight 0, too.
struct HubGraphOptions {
  Count num_nodes = 300, num_edges = 1500, hub_edges = 2500;
  Count feature_cols = 7, num_classes = 5;
  bool one_edge_counts = false;  ///< all edges of a node have weight 0 but for one
  std::uint64_t seed = 1;
};
std::unique_ptr<graph::Graph> hub_graph(const HubGraphOptions& options);

struct ModelCase {
  nn::ModelKind kind;
  nn::Aggregate aggregate = nn::Aggregate::mean;
  bool residual = false;  ///< of gat, which then has another number of heads in each layer
};

/// Which layers count edges by weight, and what the model is.
struct DenseForward {
  const graph::Graph* graph = nullptr;
  nn::BlockModel* model = nullptr;
  ModelCase kind;
  std::vector<bool> by_weight;  ///< by layer

  /// The logits of all nodes, [nodes, classes] f64, of dense matrices.
  at::Tensor logits() const;
};

/// A model for a hub_graph(), none of whose parameters is zero.
std::shared_ptr<nn::BlockModel> hub_model(const ModelCase& kind, int num_layers);

struct LoadCase {
  std::string name;  ///< of the folder
  int ranks_per_machine = 0;
  comm::TopologyOptions::Compute compute = comm::TopologyOptions::Compute::cpu;
  std::int64_t gpu_budget_bytes = 0;
  bool degrees_of_loops = true;  ///< not for gcn
};

/// A graph in three parts, with edge weights and in-degrees, loaded by all ranks of a communicator. An owner
/// of the folder; made and destroyed collectively over all ranks of the world.
class LoadedGraph {
 public:
  LoadedGraph(const comm::Communicator& world, const graph::Graph& graph, const LoadCase& load);
  ~LoadedGraph();
  LoadedGraph(const LoadedGraph&) = delete;
  LoadedGraph& operator=(const LoadedGraph&) = delete;

  train::EvaluationContext context(ThreadPool& pool) const;
  const std::filesystem::path& folder() const { return folder_; }
  const store::MachineGraph& graph() const { return *graph_; }
  const comm::Machine& machine() const { return machine_; }

 private:
  const comm::Communicator& world_;
  comm::Topology topology_;
  comm::Machine machine_;
  std::filesystem::path folder_;
  std::optional<PartitionedDataset> parts_;
  std::optional<store::MachineGraph> graph_;
  train::TrainConfig config_;
  std::unique_ptr<train::Task> task_ = train::make_node_classes(config_);
};

/// The logits that exact evaluation writes, by original id, on the cpu.
at::Tensor predicted(nn::BlockModel& model, const train::EvaluationContext& context,
                     const std::filesystem::path& folder);

/// Relative where values are above 1.
void expect_close(const at::Tensor& got, const at::Tensor& wanted, double tolerance = 5e-5);

/// A model with the abilities that exact evaluation asks for, some of them taken away; counts the pieces of
/// lists.
class Watched final : public nn::BlockModel {
 public:
  Watched(std::shared_ptr<nn::BlockModel> model, bool splits)
      : BlockModel(model->layers()), model_(std::move(model)), splits_(splits) {}

  nn::ModelTraits traits() const override {
    const nn::ModelTraits all = model_->traits();
    return {.needs_in_degrees = all.needs_in_degrees,
            .takes_edge_weights = all.takes_edge_weights,
            .takes_pieces = splits_};
  }
  at::Tensor forward_layer(int layer, const at::Tensor& x, const sampling::Block& block,
                           const nn::Pass& pass) override {
    return model_->forward_layer(layer, x, block, pass);
  }
  at::Tensor project(int layer, const at::Tensor& x) override { return model_->project(layer, x); }
  at::Tensor evaluate(int layer, const nn::ExactInput& input) override {
    if (input.piece) {
      ++pieces;
      most_rows = std::max(most_rows, input.rows.size(0));
    }
    return model_->evaluate(layer, input);
  }

  std::int64_t pieces = 0, most_rows = 0;

 private:
  std::shared_ptr<nn::BlockModel> model_;
  bool splits_;
};

}  // namespace strata::test
