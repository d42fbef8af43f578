// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "strata/graph/npy.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/nn/model.hpp"
#include "strata/nn/weights.hpp"
#include "strata/train/inference.hpp"
#include "strata/train/trainer.hpp"
#include "support/expect_error.hpp"
#include "support/learnable_graph.hpp"
#include "support/run_setup.hpp"

namespace strata::train {
namespace {

constexpr std::uint64_t kSeed = 4;

/// A run on the typed graph in memory, in a folder that all ranks agree on and that its end removes.
class TypedRun {
 public:
  explicit TypedRun(nn::ModelKind kind) : folder_(test::common_folder(std::string(enum_name(kind)))) {
    config.graph = "memory:papers";
    config.make_graph = [] { return test::learnable_graph(kSeed); };
    config.model = kind;
    config.fanouts = {4, 3};
    config.hidden = 16;
    config.heads = {nn::has_heads(kind) ? 2 : 4};
    config.global_batch_size = 30;
    config.epochs = 12;
    config.dropout = 0.2;
    config.learning_rate = 0.02;
    config.log_level = LogLevel::warn;
    config.progress = ProgressStyle::off;
    config.topology.compute = comm::TopologyOptions::Compute::cpu;
    config.output = (folder_ / "run").string();
  }
  ~TypedRun() {
    test::world().communicator().barrier();
    std::error_code ignored;
    if (test::world().rank() == 0) std::filesystem::remove_all(folder_, ignored);
    test::world().communicator().barrier();
  }

  TrainResult train() {
    StopListener stop(StopListener::ByHand{});
    losses.clear();
    return train::train(config, test::world(), stop, nn::make_model, nullptr, [&](const std::string& record) {
      losses.push_back(nlohmann::json::parse(record).at("loss").get<double>());
      return !stops_after || losses.size() < *stops_after;
    });
  }

  InferenceResult infer(const InferenceRequest& request) {
    StopListener stop(StopListener::ByHand{});
    TrainConfig with = inference_config(config);
    with.graph = config.graph;
    with.make_graph = config.make_graph;
    with.topology = config.topology;
    with.log_level = config.log_level;
    with.progress = config.progress;
    return train::infer(with, request, test::world(), stop);
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  TrainConfig config;
  std::vector<double> losses;  ///< by epoch, on the first rank
  std::optional<std::size_t> stops_after;

 private:
  std::filesystem::path folder_;
};

/// The logits of all nodes by one pass over the whole graph.
at::Tensor whole_logits(const TrainConfig& config, const std::vector<nn::NamedTensor>& weights) {
  const auto graph = config.make_graph();
  const std::int64_t cols = std::max(graph->features.cols, config.learned_rows);
  const auto model = nn::make_model({.kind = config.model,
                                     .in_cols = cols,
                                     .hidden = config.hidden,
                                     .out_cols = graph->num_classes,
                                     .num_layers = config.num_layers(),
                                     .heads = config.heads,
                                     .types = graph->types,
                                     .num_bases = config.bases});
  nn::load_weights(*model, {.tensors = weights, .metadata = {}}, "weights");
  std::vector<std::int32_t> indices(graph->structure.indices.begin(), graph->structure.indices.end());
  std::vector<NodeId> ids;
  std::vector<std::int32_t> degrees;
  for (NodeId v = 0; v < graph->num_nodes(); ++v) {
    ids.push_back(v);
    degrees.push_back(
        static_cast<std::int32_t>(graph->structure.indptr[at(v) + 1] - graph->structure.indptr[at(v)]));
  }
  const sampling::Block block{.device = {},
                              .num_dst = graph->num_nodes(),
                              .num_src = graph->num_nodes(),
                              .num_edges = graph->structure.num_edges(),
                              .indptr = graph->structure.indptr.data(),
                              .indices = indices.data(),
                              .edge_ids = graph->structure.edge_ids.data(),
                              .src_nodes = ids.data(),
                              .src_original_ids = ids.data(),
                              .src_in_degrees = degrees.data()};
  const c10::NoGradGuard no_grad;
  at::Tensor rows = at::zeros({graph->num_nodes(), cols});
  if (graph->features.cols > 0)
    rows.narrow(1, 0, graph->features.cols)
        .copy_(at::from_blob(const_cast<std::byte*>(graph->features.data),
                             {graph->num_nodes(), graph->features.cols}));
  for (const nn::NamedTensor& learned : weights) {
    if (learned.name == "learned_rows.venue") rows.slice(0, 280).copy_(learned.tensor);
    if (learned.name == "learned_rows.node") rows.copy_(learned.tensor);
  }
  for (int layer = 0; layer < model->num_layers(); ++layer)
    rows = model->forward_layer(layer, rows, block, {});
  return rows;
}

at::Tensor read_logits(const std::string& path) {
  const graph::NpyArray array = graph::read_npy(path);
  const at::Tensor rows = at::empty({array.shape[0], array.shape[1]});
  std::memcpy(rows.mutable_data_ptr(), array.data, rows.nbytes());
  return rows;
}

class TypedTraining : public testing::TestWithParam<nn::ModelKind> {};

TEST_P(TypedTraining, LearnsEvaluatesExactlyAndPredictsTheTarget) {
  TypedRun run(GetParam());
  const TrainResult result = run.train();
  EXPECT_EQ(result.valid.nodes, 50);
  EXPECT_EQ(result.test.nodes, 50);
  EXPECT_GT(result.valid.of("accuracy"), 0.5);  // by chance 0.25
  const InferenceResult again = run.infer({.run = run.config.output, .logits = {}, .nodes = {}});
  EXPECT_NEAR(again.valid.loss, result.valid.loss, 1e-5);
  EXPECT_EQ(again.test.of("accuracy"), result.test.of("accuracy"));
  run.infer({.run = run.config.output, .logits = run.file("logits.npy"), .nodes = {}});
  run.infer(
      {.run = run.config.output, .logits = run.file("test.npy"), .nodes = {}, .split = NodeSplit::test});
  if (test::world().rank() > 0) return;
  const at::Tensor wanted = whole_logits(run.config, *result.weights).narrow(0, 80, 200);
  const at::Tensor got = read_logits(run.file("logits.npy"));
  ASSERT_EQ(got.sizes(), wanted.sizes());
  EXPECT_LT((got - wanted).abs().max().item<float>(), 2e-5f);
  EXPECT_TRUE(read_logits(run.file("test.npy")).equal(got.slice(0, 1, 200, 4)));
}

/// The same nodes and edges, of one type and without features.
std::unique_ptr<graph::Graph> plain_graph() {
  auto graph = test::learnable_graph(kSeed);
  graph->features = {};
  graph->types = {};
  graph->structure.edge_ids.clear();
  graph::CscGraph& lists = graph->structure;
  lists.sublists = {};
  for (NodeId v = 0; v < lists.num_nodes; ++v)
    std::sort(lists.indices.begin() + lists.indptr[at(v)], lists.indices.begin() + lists.indptr[at(v) + 1]);
  return graph;
}

class LearnedInputs : public testing::TestWithParam<nn::ModelKind> {};

TEST_P(LearnedInputs, AreReadWhereverTheModelIsUsed) {
  TypedRun run(GetParam());
  const bool typed = nn::takes_types(GetParam());
  if (!typed) run.config.make_graph = plain_graph;
  run.config.epochs = 3;
  run.config.learned_rows = 9;
  run.config.learned_lr = 0.03;
  const TrainResult result = run.train();
  const std::vector<double> losses = run.losses;
  run.config.learned_rows = 0;
  const InferenceRequest scores{.run = run.config.output, .logits = {}, .nodes = {}};
  if (typed) {
    EXPECT_THROW(run.infer(scores), InputError) << "another width";
  }
  run.config.learned_rows = 9;
  EXPECT_NEAR(run.infer(scores).valid.loss, result.valid.loss, 1e-5);
  run.infer({.run = run.config.output, .logits = run.file("logits.npy"), .nodes = {}});
  run.config.output += "_again";
  run.train();
  if (test::world().rank() > 0) return;
  EXPECT_EQ(run.losses, losses);
  EXPECT_LT(losses.back(), losses.front());
  at::Tensor wanted = whole_logits(run.config, *result.weights);
  if (typed) wanted = wanted.narrow(0, 80, 200);
  const at::Tensor got = read_logits(run.file("logits.npy"));
  ASSERT_EQ(got.sizes(), wanted.sizes());
  EXPECT_LT((got - wanted).abs().max().item<float>(), 5e-5f);
}

INSTANTIATE_TEST_SUITE_P(Models, LearnedInputs,
                         testing::Values(nn::ModelKind::rgat, nn::ModelKind::hgt, nn::ModelKind::sage,
                                         nn::ModelKind::gin),
                         [](const auto& info) { return std::string(enum_name(info.param)); });

TEST_P(TypedTraining, GoesOnWhereItStopped) {
  TypedRun run(GetParam());
  run.config.epochs = 4;
  run.config.learned_rows = 3;
  run.config.learned_optimizer =
      GetParam() == nn::ModelKind::rgat ? RowOptimizer::adagrad : RowOptimizer::adam;
  run.config.dropout = 0.3;
  if (nn::has_heads(GetParam())) run.config.attention_dropout = 0.2;
  run.train();
  const std::vector<double> losses = run.losses;
  run.config.output += "_again";
  run.stops_after = 2;
  EXPECT_TRUE(run.train().stopped);
  run.stops_after.reset();
  run.config.resume = true;
  run.train();
  if (test::world().rank() > 0) return;
  ASSERT_EQ(losses.size(), 4u);
  ASSERT_EQ(run.losses.size(), 2u);
  EXPECT_EQ(run.losses[0], losses[2]);
  EXPECT_EQ(run.losses[1], losses[3]);
}

INSTANTIATE_TEST_SUITE_P(Models, TypedTraining,
                         testing::Values(nn::ModelKind::rgcn, nn::ModelKind::rsage, nn::ModelKind::rgat,
                                         nn::ModelKind::hgt),
                         [](const auto& info) { return std::string(enum_name(info.param)); });

TEST(TypedOptions, ChangeWhatIsSampled) {
  TypedRun run(nn::ModelKind::rgcn);
  run.config.epochs = 1;
  run.config.bases = 2;
  run.train();
  const std::vector<double> plain = run.losses;
  run.config.output += "_named";
  run.config.relation_fanouts = {{"paper__writes__author", {0, 0}}, {"cites", {-1, 2}}};
  run.config.target = "paper";
  run.train();
  if (test::world().rank() > 0) return;
  EXPECT_NE(run.losses, plain);
}

enum class Weights : std::uint8_t { kept, as_copies };

/// The same graph with weights of 1, 2 and 3, as weights or as so many copies of an edge.
std::unique_ptr<graph::Graph> weighted_graph(Weights weights) {
  auto graph = test::learnable_graph(kSeed);
  graph::CscGraph& lists = graph->structure;
  const graph::CscGraph plain = std::exchange(lists, {});
  lists.num_nodes = plain.num_nodes;
  lists.indptr = {0};
  for (NodeId v = 0; v < plain.num_nodes; ++v) {
    for (auto e = at(plain.indptr[at(v)]); e < at(plain.indptr[at(v) + 1]); ++e) {
      const Count weight = 1 + plain.edge_ids[e] % 3;
      if (weights == Weights::kept) lists.weights.push_back(static_cast<float>(weight));
      const Count copies = weights == Weights::kept ? 1 : weight;
      lists.indices.insert(lists.indices.end(), at(copies), plain.indices[e]);
      lists.edge_ids.insert(lists.edge_ids.end(), at(copies), plain.edge_ids[e]);
    }
    lists.indptr.push_back(lists.num_edges());
  }
  lists.sublists = graph::sublists_of(lists, graph->types);
  return graph;
}

void expect_refused(TypedRun& run, const std::vector<std::string>& parts) {
  StopListener stop(StopListener::ByHand{});
  test::expect_error<InputError>([&] { train(run.config, test::world(), stop); }, parts);
}

TEST(TypedOptions, AreRefusedWithTheNamesThatThereAre) {
  TypedRun run(nn::ModelKind::sage);
  expect_refused(
      run, {"--model sage: the graph has 3 types of nodes and 5 relations", "rgcn, rsage, rgat or hgt"});
  run.config.model = nn::ModelKind::rgcn;
  run.config.target = "authors";
  expect_refused(run, {"--target authors", "author, paper, venue"});
  run.config.target = "author";
  expect_refused(run, {"no node of the type \"author\" is in the training split"});
  run.config.target = "";
  run.config.relation_fanouts = {{"writes", {1, 1}}};
  expect_refused(run, {"2 relations are called \"writes\"", "author__writes__paper, paper__writes__author"});
  run.config.relation_fanouts = {{"cites", {1}}};
  expect_refused(run, {"--relation-fanouts: cites has 1 entries, --fanouts 2"});
  run.config.relation_fanouts.clear();
  run.config.model = nn::ModelKind::rgat;
  run.config.sampler = SamplerKind::weighted;
  run.config.make_graph = [] { return weighted_graph(Weights::kept); };
  expect_refused(run, {"exact evaluation cannot weigh neighbors", "Give --eval-fanouts"});
}

/// The graph without the edges that have a paper on an end that is not trained on.
std::unique_ptr<graph::Graph> seen_graph() {
  auto graph = test::learnable_graph(kSeed);
  const std::vector<NodeId>& train = graph->splits.train;
  const Range papers = graph::nodes_of_type(graph->types, 1, graph->num_nodes());
  const auto sees = [&](NodeId v) {
    return v < papers.first || v >= papers.end() || std::ranges::binary_search(train, v);
  };
  graph::CscGraph& lists = graph->structure;
  Count kept = 0;
  for (NodeId v = 0; v < lists.num_nodes; ++v) {
    const Count begin = std::exchange(lists.indptr[at(v)], kept), end = lists.indptr[at(v) + 1];
    for (Count e = begin; e < end; ++e) {
      if (!sees(v) || !sees(lists.indices[at(e)])) continue;
      lists.indices[at(kept)] = lists.indices[at(e)];
      lists.edge_ids[at(kept++)] = lists.edge_ids[at(e)];
    }
  }
  lists.indptr.back() = kept;
  lists.indices.resize(at(kept));
  lists.edge_ids.resize(at(kept));
  lists.sublists = graph::sublists_of(lists, graph->types);
  return graph;
}

TEST(TypedOptions, InductiveTrainingSeesTrainingNodesAndOtherTypes) {
  TypedRun run(nn::ModelKind::rgcn);
  run.config.epochs = 2;
  run.config.inductive = true;
  const TrainResult inductive = run.train();
  const std::vector<double> losses = run.losses;
  run.config.inductive = false;
  const InferenceResult whole = run.infer({.run = run.config.output, .logits = {}, .nodes = {}});
  EXPECT_NEAR(whole.valid.loss, inductive.valid.loss, 1e-5);
  run.config.output += "_seen";
  run.config.make_graph = seen_graph;
  const TrainResult seen = run.train();
  if (test::world().rank() > 0) return;
  EXPECT_EQ(run.losses, losses);
  EXPECT_NE(seen.valid.loss, inductive.valid.loss) << "evaluation sees all edges";
}

class WeightedTypes : public testing::TestWithParam<nn::ModelKind> {};

TEST_P(WeightedTypes, CountInExactEvaluationAsRepeatedEdges) {
  TypedRun run(GetParam());
  run.config.make_graph = [] { return weighted_graph(Weights::kept); };
  run.config.sampler = SamplerKind::weighted;
  run.config.epochs = 2;
  const TrainResult result = run.train();
  run.infer({.run = run.config.output, .logits = run.file("logits.npy"), .nodes = {}});
  if (test::world().rank() > 0) return;
  run.config.make_graph = [] { return weighted_graph(Weights::as_copies); };
  const at::Tensor wanted = whole_logits(run.config, *result.weights).narrow(0, 80, 200);
  const at::Tensor got = read_logits(run.file("logits.npy"));
  EXPECT_LT((got - wanted).abs().max().item<float>(), 2e-5f);
  run.config.make_graph = [] { return test::learnable_graph(kSeed); };
  const at::Tensor unweighted = whole_logits(run.config, *result.weights).narrow(0, 80, 200);
  EXPECT_GT((got - unweighted).abs().max().item<float>(), 1e-2f);
}

INSTANTIATE_TEST_SUITE_P(Models, WeightedTypes, testing::Values(nn::ModelKind::rgcn, nn::ModelKind::rsage),
                         [](const auto& info) { return std::string(enum_name(info.param)); });

}  // namespace
}  // namespace strata::train
