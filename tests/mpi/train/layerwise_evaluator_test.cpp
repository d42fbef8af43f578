// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>

#include "evaluation/evaluator.hpp"
#include "strata/batches/placed_graph.hpp"
#include "strata/graph/npy.hpp"
#include "strata/nn/model.hpp"
#include "strata/train/config.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::train {
namespace {

using Rows = std::vector<std::vector<double>>;

struct Case {
  nn::ModelKind kind;
  int num_layers;
  std::int64_t classes;
  int ranks_per_machine;  ///< 0: all on one machine
  Count chunk_bytes;      ///< 0: by device
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string(enum_name(c.kind)) + "_" + std::to_string(c.num_layers) + "_layers_" +
         std::to_string(c.classes) + "_classes_" + std::to_string(c.ranks_per_machine) + "_a_machine_chunk_" +
         std::to_string(c.chunk_bytes);
}

/// One layer over the whole graph, node by node.
class Reference {
 public:
  Reference(const graph::Graph& graph, nn::BlockModel& model, bool gcn)
      : graph_(graph), model_(model), parameters_(model.named_parameters()), gcn_(gcn) {}

  Rows logits() const {
    const auto cols = at(graph_.features.cols);
    const std::vector<float> features = test::features_as_floats(graph_);
    Rows rows;
    for (std::size_t v = 0; v < at(graph_.num_nodes()); ++v)
      rows.emplace_back(features.begin() + static_cast<std::ptrdiff_t>(v * cols),
                        features.begin() + static_cast<std::ptrdiff_t>((v + 1) * cols));
    for (int layer = 0; layer < model_.num_layers(); ++layer) rows = apply(layer, rows);
    return rows;
  }

 private:
  Rows apply(int layer, const Rows& rows) const {
    const std::string name = "convs." + std::to_string(layer) + ".";
    Rows out;
    for (std::size_t v = 0; v < rows.size(); ++v) {
      std::vector<double> row(at(model_.output_cols(layer)));
      add(row, parameters_[name + (gcn_ ? "bias" : "lin_l.bias")]);
      add_mapped(row, parameters_[name + (gcn_ ? "lin.weight" : "lin_l.weight")], neighbors(v, rows));
      if (!gcn_) add_mapped(row, parameters_[name + "lin_r.weight"], rows[v]);
      if (layer + 1 < model_.num_layers())
        for (double& value : row) value = std::max(value, 0.0);
      out.push_back(std::move(row));
    }
    return out;
  }

  /// A loop of the graph is no in-neighbor of gcn, which adds one of its own.
  bool is_left_out(std::size_t u, std::size_t v) const { return gcn_ && u == v; }

  double degree(std::size_t v) const {
    double count = 0;
    for (auto e = graph_.structure.indptr[v]; e < graph_.structure.indptr[v + 1]; ++e)
      count += is_left_out(at(graph_.structure.indices[at(e)]), v) ? 0 : 1;
    return count;
  }

  std::vector<double> neighbors(std::size_t v, const Rows& rows) const {
    std::vector<double> sum(rows[v].size());
    const auto add_row = [&](std::size_t u, double scale) {
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += scale * rows[u][c];
    };
    for (auto e = graph_.structure.indptr[v]; e < graph_.structure.indptr[v + 1]; ++e) {
      const auto u = at(graph_.structure.indices[at(e)]);
      if (is_left_out(u, v)) continue;
      add_row(u, gcn_ ? 1 / std::sqrt((degree(u) + 1) * (degree(v) + 1)) : 1 / degree(v));
    }
    if (gcn_) add_row(v, 1 / (degree(v) + 1));
    return sum;
  }

  static void add(std::vector<double>& row, const at::Tensor& bias) {
    for (std::size_t c = 0; c < row.size(); ++c) row[c] += bias.const_data_ptr<float>()[c];
  }
  static void add_mapped(std::vector<double>& row, const at::Tensor& weight, const std::vector<double>& in) {
    for (std::size_t c = 0; c < row.size(); ++c)
      for (std::size_t i = 0; i < in.size(); ++i)
        row[c] += weight.const_data_ptr<float>()[c * in.size() + i] * in[i];
  }

  const graph::Graph& graph_;
  nn::BlockModel& model_;
  torch::OrderedDict<std::string, at::Tensor> parameters_;
  bool gcn_;
};

/// The same layers without the ability to project: what a user's model may be.
class Unprojected final : public nn::BlockModel {
 public:
  explicit Unprojected(std::shared_ptr<nn::BlockModel> model)
      : BlockModel(outputs_of(*model)), model_(std::move(model)) {}
  nn::ModelTraits traits() const override { return {.needs_in_degrees = model_->traits().needs_in_degrees}; }
  at::Tensor forward_layer(int layer, const at::Tensor& x, const sampling::Block& block,
                           const nn::Pass& pass) override {
    return model_->forward_layer(layer, x, block, pass);
  }

 private:
  static std::vector<nn::LayerCols> outputs_of(const nn::BlockModel& model) {
    std::vector<nn::LayerCols> layers = model.layers();
    for (nn::LayerCols& layer : layers) layer = {.output = layer.output};
    return layers;
  }

  std::shared_ptr<nn::BlockModel> model_;
};

std::vector<float> read_rows(const std::filesystem::path& path, std::size_t size) {
  std::vector<float> values(size);
  const auto bytes = static_cast<std::streamsize>(size * sizeof(float));
  std::ifstream file(path, std::ios::binary);
  file.seekg(-bytes, std::ios::end);
  file.read(reinterpret_cast<char*>(values.data()), bytes);
  EXPECT_TRUE(file.good()) << path;
  return values;
}

class ExactEvaluation : public testing::TestWithParam<Case> {
 protected:
  ExactEvaluation()
      : run_(GetParam().ranks_per_machine),
        graph_(test::random_dataset({.num_nodes = 400,
                                     .num_edges = 3000,
                                     .feature_cols = 7,
                                     .num_classes = GetParam().classes,
                                     .seed = 5})),
        directory_(test::common_folder("exact_evaluation")),
        device_(run_.machine.device()) {
    if (test::world().rank() == 0) parts_.emplace(*graph_, 3, directory_ / "parts", 5);
    test::world().communicator().barrier();
    loaded_.emplace(
        batches::load_parts(directory_ / "parts", run_.ranks(),
                            {.in_degrees = true, .degrees_of_loops = GetParam().kind != nn::ModelKind::gcn}));
  }
  ~ExactEvaluation() override {
    loaded_->close(run_.machine);
    test::world().communicator().barrier();
    if (test::world().rank() == 0) std::filesystem::remove_all(directory_);
    run_.machine.close();
  }

  std::shared_ptr<nn::BlockModel> make_model() const {
    const at::NoGradGuard no_grad;
    auto model = nn::make_model({.kind = GetParam().kind,
                                 .in_cols = 7,
                                 .hidden = 24,
                                 .out_cols = GetParam().classes,
                                 .num_layers = GetParam().num_layers,
                                 .seed = 2});
    for (at::Tensor& p : model->parameters()) p.add_(0.02);  // so that no bias is zero
    return model;
  }

  struct Result {
    Evaluation scores;
    std::vector<float> logits;
  };
  EvaluationContext context(ThreadPool& pool) {
    return {.ranks = run_.ranks(),
            .graph = &*loaded_,
            .task = task_.get(),
            .targets = task_->targets(*loaded_),
            .pool = &pool,
            .seed = 1,
            .alive = [] {}};
  }

  Result evaluate(nn::BlockModel& model, const std::string& name) {
    ThreadPool pool(2);
    EvaluationContext context = this->context(pool);
    context.chunk_bytes = GetParam().chunk_bytes;
    LayerwiseEvaluator evaluator(context);
    const std::filesystem::path path = directory_ / name;
    Result result{evaluator.predict(model, path.string()), {}};
    test::world().communicator().barrier();
    result.logits = read_rows(path, at(graph_->num_nodes() * GetParam().classes));
    evaluator.close();
    return result;
  }

  test::RunSetup run_;
  std::unique_ptr<graph::Graph> graph_;
  std::filesystem::path directory_;
  Device device_;
  std::optional<test::PartitionedDataset> parts_;
  std::optional<store::MachineGraph> loaded_;
  TrainConfig config_;
  std::unique_ptr<Task> task_ = make_node_classes(config_);
};

TEST_P(ExactEvaluation, AgreesWithAPlainForwardOverTheWholeGraph) {
  const auto model = make_model();
  const Result result = evaluate(*model, "logits.npy");
  const Rows expected = Reference(*graph_, *model, GetParam().kind == nn::ModelKind::gcn).logits();
  const auto classes = at(GetParam().classes);
  for (std::size_t v = 0; v < expected.size(); ++v) {
    for (std::size_t c = 0; c < classes; ++c)
      ASSERT_NEAR(result.logits[v * classes + c], expected[v][c],
                  2e-5 * std::max(1.0, std::abs(expected[v][c])))
          << "node " << v << " class " << c;
  }
}

TEST_P(ExactEvaluation, GivesModelsWithoutProjectionTheSame) {
  const auto model = make_model();
  Unprojected plain(model);
  const Result projected = evaluate(*model, "projected.npy"), expected = evaluate(plain, "plain.npy");
  ASSERT_EQ(projected.logits.size(), expected.logits.size());
  for (std::size_t i = 0; i < expected.logits.size(); ++i)
    ASSERT_NEAR(projected.logits[i], expected.logits[i], 1e-5 * std::max(1.0f, std::abs(expected.logits[i])));
  EXPECT_GT(expected.scores.valid.nodes, 0);
  EXPECT_EQ(projected.scores.valid.nodes, expected.scores.valid.nodes);
  EXPECT_EQ(projected.scores.test.nodes, expected.scores.test.nodes);
  EXPECT_NEAR(projected.scores.valid.loss, expected.scores.valid.loss, 1e-5);
}

TEST_P(ExactEvaluation, ScoresTheSameFromTheNodesThatTheScoresNeed) {
  const auto model = make_model();
  const Evaluation everywhere = evaluate(*model, "all.npy").scores;
  ThreadPool pool(2);
  EvaluationContext context = this->context(pool);
  context.chunk_bytes = GetParam().chunk_bytes;
  context.most_needed = 1.0;
  LayerwiseEvaluator evaluator(context);
  for (int again = 0; again < 2; ++again) {
    const Evaluation needed = evaluator.evaluate(*model);
    EXPECT_EQ(needed.valid.nodes, everywhere.valid.nodes);
    EXPECT_EQ(needed.test.nodes, everywhere.test.nodes);
    EXPECT_NEAR(needed.valid.loss, everywhere.valid.loss, 1e-5);
    EXPECT_NEAR(needed.test.loss, everywhere.test.loss, 1e-5);
    EXPECT_EQ(needed.valid.of("accuracy"), everywhere.valid.of("accuracy"));
  }
  evaluator.close();
}

// Two hidden layers of 24 columns a node at once, or one where nothing else is hidden; one byte is never
// enough.
TEST_P(ExactEvaluation, KnowsWhetherItFits) {
  const auto model = make_model();
  using Nodes = LayerwiseEvaluator::Nodes;
  const auto fits = [&](Count host_bytes, Nodes nodes) {
    ThreadPool pool(1);
    EvaluationContext context = this->context(pool);
    context.host_bytes = host_bytes;
    LayerwiseEvaluator evaluator(context);
    const bool result = evaluator.fits(*model, nodes);
    evaluator.close();
    return result;
  };
  const Count rows = graph_->num_nodes(), most = rows * 2 * 2 * 24 * static_cast<Count>(sizeof(float));
  for (const Nodes nodes : {Nodes::scored, Nodes::predicted}) {
    EXPECT_TRUE(fits(most, nodes));
    EXPECT_EQ(fits(1, nodes), GetParam().num_layers == 1);
  }
}

// Of 24 hidden columns, SAGE projects for 5 classes and not for 14, GCN for both.
constexpr Count kManyChunks = 1 << 14;
INSTANTIATE_TEST_SUITE_P(
    Models, ExactEvaluation,
    testing::Values(Case{nn::ModelKind::sage, 1, 5, 0, 0}, Case{nn::ModelKind::sage, 2, 5, 0, kManyChunks},
                    Case{nn::ModelKind::sage, 3, 5, 0, kManyChunks},
                    Case{nn::ModelKind::sage, 3, 5, 1, kManyChunks}, Case{nn::ModelKind::sage, 3, 5, 1, 0},
                    Case{nn::ModelKind::sage, 3, 14, 1, kManyChunks}, Case{nn::ModelKind::gcn, 1, 5, 1, 0},
                    Case{nn::ModelKind::gcn, 2, 14, 0, kManyChunks},
                    Case{nn::ModelKind::gcn, 3, 5, 0, kManyChunks},
                    Case{nn::ModelKind::gcn, 3, 5, 1, kManyChunks}, Case{nn::ModelKind::gcn, 3, 14, 1, 0}),
    name_of);

}  // namespace
}  // namespace strata::train
