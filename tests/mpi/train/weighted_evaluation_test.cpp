// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "evaluation/evaluator.hpp"
#include "support/evaluation_cases.hpp"
#include "task/missing_targets.hpp"

namespace strata::train {
namespace {

using sampling::Method;
using test::LoadedGraph;

std::int64_t over_ranks(std::int64_t mine, comm::Communicator::Op op) {
  test::world().communicator().all_reduce(std::span(&mine, 1), op);
  return mine;
}

struct HubCase {
  test::ModelCase kind;
  int ranks_per_machine;
};
constexpr Count kSmallChunk = 1 << 14;

class ExactEvaluationOfHubs : public testing::TestWithParam<HubCase> {
 protected:
  std::unique_ptr<graph::Graph> graph_ = test::hub_graph({.seed = 4});
  LoadedGraph loaded_{test::world().communicator(),
                      *graph_,
                      {.name = "weighted",
                       .ranks_per_machine = GetParam().ranks_per_machine,
                       .degrees_of_loops = GetParam().kind.kind != nn::ModelKind::gcn}};
  std::shared_ptr<nn::BlockModel> model_ = test::hub_model(GetParam().kind, 3);
  ThreadPool pool_{2};
};

TEST_P(ExactEvaluationOfHubs, CountsEdgesByWeightInLayersThatTrainingSamplesByWeight) {
  struct Weighing {
    sampling::SamplerOptions sampler;
    std::vector<bool> by_weight;  // by layer, the last of which reads the first hop
  };
  const std::vector<Weighing> weighings{
      {{.fanouts = {}, .method = Method::uniform}, {false, false, false}},
      {{.fanouts = {5, 4, 3}, .method = Method::weighted}, {true, true, true}},
      {{.fanouts = {-1, 4, 3}, .method = Method::weighted}, {true, true, false}}};
  for (const Weighing& weighing : weighings) {
    const test::DenseForward dense{graph_.get(), model_.get(), GetParam().kind, weighing.by_weight};
    const at::Tensor wanted = dense.logits();
    for (const Count chunk_bytes : {Count{0}, kSmallChunk}) {
      EvaluationContext context = loaded_.context(pool_);
      context.sampler = weighing.sampler;
      context.chunk_bytes = chunk_bytes;
      SCOPED_TRACE(testing::Message()
                   << "chunk " << chunk_bytes << ", first fanout "
                   << (weighing.sampler.fanouts.empty() ? 0 : weighing.sampler.fanouts[0]));
      test::expect_close(test::predicted(*model_, context, loaded_.folder()), wanted);
    }
  }
}

TEST_P(ExactEvaluationOfHubs, ReadsAHubsListInPiecesWithinTheChunk) {
  for (const Method method : {Method::uniform, Method::weighted}) {
    EvaluationContext context = loaded_.context(pool_);
    context.sampler.method = method;
    context.chunk_bytes = kSmallChunk;
    test::Watched split(model_, true), whole(model_, false);
    const at::Tensor got = test::predicted(split, context, loaded_.folder()),
                     wanted = test::predicted(whole, context, loaded_.folder());
    // With residuals, two larger terms are added, whose rounding counts where they cancel.
    test::expect_close(got, wanted, GetParam().kind.residual ? 3e-5 : 1e-5);
    EXPECT_GT(over_ranks(split.pieces, comm::Communicator::Op::max), 3 * 5);  // of three layers
    const Count row_bytes = 7 * static_cast<Count>(sizeof(float));            // of the narrowest layer
    EXPECT_LT(over_ranks(split.most_rows, comm::Communicator::Op::max), kSmallChunk / row_bytes);
    EXPECT_EQ(whole.pieces, 0);
  }
}

std::string name_of(const testing::TestParamInfo<HubCase>& info) {
  const HubCase& c = info.param;
  return std::string(enum_name(c.kind.kind)) + (c.kind.residual ? "_residual_" : "_") +
         std::string(enum_name(c.kind.aggregate)) + "_" + std::to_string(c.ranks_per_machine) +
         "_per_machine";
}
INSTANTIATE_TEST_SUITE_P(Models, ExactEvaluationOfHubs,
                         testing::Values(HubCase{{nn::ModelKind::sage}, 0}, HubCase{{nn::ModelKind::sage}, 1},
                                         HubCase{{nn::ModelKind::sage, nn::Aggregate::max}, 0},
                                         HubCase{{nn::ModelKind::sage, nn::Aggregate::max}, 1},
                                         HubCase{{nn::ModelKind::gcn}, 0}, HubCase{{nn::ModelKind::gcn}, 1},
                                         HubCase{{nn::ModelKind::gin}, 0}, HubCase{{nn::ModelKind::gat}, 0},
                                         HubCase{{nn::ModelKind::gat}, 1},
                                         HubCase{{.kind = nn::ModelKind::gat, .residual = true}, 0},
                                         HubCase{{.kind = nn::ModelKind::gat, .residual = true}, 1}),
                         name_of);

void expect_same(const Scores& a, const Scores& b) {
  EXPECT_EQ(a.nodes, b.nodes);
  EXPECT_GT(a.nodes, 0);
  EXPECT_NEAR(a.loss, b.loss, 1e-5);
  EXPECT_EQ(a.of("accuracy"), b.of("accuracy"));
  EXPECT_EQ(a.of("macro_f1"), b.of("macro_f1"));
}

Evaluation sampled(nn::BlockModel& model, const EvaluationContext& context, Count batch_size) {
  EvaluationContext of_sample = context;
  of_sample.sampler.fanouts = {3, 2};
  const auto evaluator = make_sampled_evaluator(of_sample, batch_size);
  const Evaluation result = evaluator->evaluate(model);
  evaluator->close();
  return result;
}

TEST(SampledEvaluation, ChoosesAsTrainingDoes) {
  const auto graph = test::hub_graph({.one_edge_counts = true, .seed = 6});
  const LoadedGraph loaded(test::world().communicator(), *graph,
                           {.name = "sampled_by_weight", .ranks_per_machine = 0});
  const auto model = test::hub_model({nn::ModelKind::sage}, 2);
  ThreadPool pool(2);
  EvaluationContext context = loaded.context(pool);
  const Scores uniform = sampled(*model, context, 16).test;
  context.sampler.method = Method::weighted;
  LayerwiseEvaluator exact(context);
  const Evaluation wanted = exact.evaluate(*model);
  exact.close();
  for (const bool replace : {false, true}) {  // every draw of a node takes the same edge
    context.sampler.replace = replace;
    const Evaluation got = sampled(*model, context, 16);
    expect_same(got.valid, wanted.valid);
    expect_same(got.test, wanted.test);
  }
  EXPECT_GT(std::abs(uniform.loss - wanted.test.loss), 1e-4);
}

TEST(SampledEvaluation, IsTheSameForAllNumbersOfRanksAndBatchSizes) {
  const auto graph = test::hub_graph({.seed = 7});
  const comm::Communicator& world = test::world().communicator();
  comm::Communicator alone = world.split(world.rank(), 0);
  const auto model = test::hub_model({nn::ModelKind::sage}, 2);
  ThreadPool pool(2);
  for (const Method method : {Method::uniform, Method::weighted, Method::labor}) {
    const auto scores_of = [&](const comm::Communicator& ranks, int ranks_per_machine, Count batch_size) {
      const std::string name = "sampled" + std::to_string(ranks.size() == 1 ? world.rank() : 0) + "_of";
      const LoadedGraph loaded(ranks, *graph, {.name = name, .ranks_per_machine = ranks_per_machine});
      EvaluationContext context = loaded.context(pool);
      context.sampler.method = method;
      return sampled(*model, context, batch_size);
    };
    const Evaluation wanted = scores_of(alone, 0, 1000);
    for (const int ranks_per_machine : {0, 1}) {
      const Evaluation got = scores_of(world, ranks_per_machine, 8);
      expect_same(got.valid, wanted.valid);
      expect_same(got.test, wanted.test);
    }
  }
  alone.close();
}

/// Asks to stop on the last rank, when it was asked often enough.
struct StopAfter {
  int questions;
  bool operator()() { return test::world().rank() + 1 == test::world().size() && questions-- <= 0; }
};

TEST(StoppedEvaluation, EndsOnAllRanksBetweenChunks) {
  const auto graph = test::hub_graph({.seed = 8});
  for (const int ranks_per_machine : {0, 1}) {
    const LoadedGraph loaded(test::world().communicator(), *graph,
                             {.name = "stopped", .ranks_per_machine = ranks_per_machine});
    const auto model = test::hub_model({nn::ModelKind::gcn}, 2);
    ThreadPool pool(2);
    EvaluationContext context = loaded.context(pool);
    context.chunk_bytes = kSmallChunk;
    int chunks = 0;
    context.alive = [&] { ++chunks; };
    LayerwiseEvaluator whole(context);
    const Evaluation wanted = whole.evaluate(*model);
    whole.close();
    ASSERT_FALSE(wanted.stopped);
    const int all = chunks;
    const std::filesystem::path path = loaded.folder() / "stopped.npy";
    for (const int questions : {0, 1, 3}) {
      auto stop = std::make_shared<StopAfter>(StopAfter{questions});
      context.stop_requested = [stop] { return (*stop)(); };
      LayerwiseEvaluator evaluator(context);
      chunks = 0;
      EXPECT_TRUE(evaluator.evaluate(*model).stopped);
      EXPECT_LT(chunks, all) << "after " << questions << " questions";
      EXPECT_TRUE(evaluator.predict(*model, path.string()).stopped);
      test::world().communicator().barrier();
      EXPECT_FALSE(std::filesystem::exists(path));
      EXPECT_FALSE(std::filesystem::exists(path.string() + ".tmp"));
      stop->questions = 1 << 30;
      expect_same(evaluator.evaluate(*model).test,
                  wanted.test);  // an evaluation that was ended leaves nothing
      evaluator.close();
    }
  }
}

TEST(StoppedEvaluation, EndsBetweenSampledBatches) {
  const auto graph = test::hub_graph({.seed = 9});
  const LoadedGraph loaded(test::world().communicator(), *graph,
                           {.name = "stopped_sampled", .ranks_per_machine = 0});
  const auto model = test::hub_model({nn::ModelKind::gcn}, 2);
  ThreadPool pool(2);
  EvaluationContext context = loaded.context(pool);
  EXPECT_FALSE(sampled(*model, context, 2).stopped);
  for (const int questions : {0, 1}) {
    context.stop_requested = StopAfter{questions};
    EXPECT_TRUE(sampled(*model, context, 2).stopped);
  }
}

TEST(MissingTargets, AreCountedOfEverySplit) {
  const auto graph = test::hub_graph({.seed = 10});
  const auto without = [&](const std::vector<NodeId>& nodes) {
    return std::ranges::count_if(nodes, [&](NodeId v) { return graph->labels[at(v)] < 0; });
  };
  for (const int ranks_per_machine : {0, 1}) {
    const LoadedGraph loaded(test::world().communicator(), *graph,
                             {.name = "unlabelled", .ranks_per_machine = ranks_per_machine});
    ThreadPool pool(1);
    const MissingTargets counts =
        count_missing(batches::labels_of(loaded.graph()), loaded.graph(), loaded.context(pool).ranks);
    EXPECT_GT(counts.test, 0);
    EXPECT_EQ(counts.train, without(graph->splits.train));
    EXPECT_EQ(counts.valid, without(graph->splits.valid));
    EXPECT_EQ(counts.test, without(graph->splits.test));
    const std::string text = describe(counts, loaded.graph().manifest());
    EXPECT_NE(text.find(std::to_string(counts.test) + " of "), std::string::npos) << text;
  }
  EXPECT_EQ(describe(MissingTargets{}, {}), "");
}

}  // namespace
}  // namespace strata::train
