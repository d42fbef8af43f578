// SPDX-License-Identifier: Apache-2.0
#include "support/evaluation_cases.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>

#include "strata/batches/placed_graph.hpp"

namespace strata::test {
namespace {

struct Edge {
  NodeId to, from;
  EdgeId id;
  float weight;
};

std::vector<Edge> random_edges(const HubGraphOptions& options) {
  std::mt19937_64 random(options.seed);
  const auto node = [&] {
    return static_cast<NodeId>(random() % static_cast<std::uint64_t>(options.num_nodes));
  };
  std::vector<Edge> edges;
  for (EdgeId e = 0; e < options.num_edges + options.hub_edges; ++e) {
    const NodeId to = e < options.hub_edges ? 0 : node();
    const auto draw = static_cast<float>(random() % 16);
    edges.push_back({to, node(), e, to == 1 || draw < 4 ? 0.0f : draw * draw / 16});
  }
  std::ranges::sort(edges, {}, [](const Edge& e) { return std::tuple(e.to, e.from, e.id); });
  if (!options.one_edge_counts) return edges;
  for (std::size_t e = 0; e < edges.size(); ++e)
    edges[e].weight = e == 0 || edges[e].to != edges[e - 1].to ? 3.0f : 0.0f;
  return edges;
}

/// What the layers of the kinds read of a graph.
struct Dense {
  at::Tensor degrees;    ///< [n, 1]
  at::Tensor shares;     ///< [n, n] how often v <- u counts, parallel edges together
  at::Tensor neighbors;  ///< [n, n] whether it counts at all
  at::Tensor loops;      ///< [n, 1] edges from v to itself
};

Dense dense_of(const graph::Graph& graph, bool by_weight) {
  const auto n = graph.num_nodes();
  const auto& csc = graph.structure;
  Dense dense{
      at::zeros({n, 1}, at::kDouble), at::zeros({n, n}, at::kDouble), {}, at::zeros({n, 1}, at::kDouble)};
  for (NodeId v = 0; v < n; ++v) {
    const auto begin = csc.indptr[at(v)], end = csc.indptr[at(v) + 1];
    const double degree = static_cast<double>(end - begin);
    double sum = 0;
    for (auto e = begin; e < end; ++e) sum += static_cast<double>(csc.weights[at(e)]);
    dense.degrees[v] = degree;
    for (auto e = begin; e < end; ++e) {
      const double weight = static_cast<double>(csc.weights[at(e)]);
      const double share = !by_weight ? 1 : sum > 0 ? degree * weight / sum : 0;
      dense.shares[v][csc.indices[at(e)]] += share;
      if (csc.indices[at(e)] == v) dense.loops[v] += 1;
    }
  }
  dense.neighbors = dense.shares.gt(0);
  return dense;
}

at::Tensor largest_of_neighbors(const at::Tensor& x, const Dense& dense) {
  at::Tensor out = at::zeros_like(x);
  for (std::int64_t v = 0; v < x.size(0); ++v) {
    const at::Tensor rows = x.index({dense.neighbors[v]});
    if (rows.size(0) > 0) out[v] = std::get<0>(rows.max(0));
  }
  return out;
}

struct LayerOf {
  const torch::OrderedDict<std::string, at::Tensor>& parameters;
  int layer;
  bool last;

  at::Tensor at(const std::string& name) const {
    return parameters[full(name)].detach().cpu().to(at::kDouble);
  }
  bool has(const std::string& name) const { return parameters.contains(full(name)); }
  std::string full(const std::string& name) const { return "convs." + std::to_string(layer) + "." + name; }
};

at::Tensor sage(const LayerOf& of, const at::Tensor& x, const at::Tensor& aggregated) {
  return aggregated.mm(of.at("lin_l.weight").t()) + of.at("lin_l.bias") + x.mm(of.at("lin_r.weight").t());
}

/// Loops are replaced by the one that the layer adds: they count neither as edges nor for degrees.
at::Tensor gcn(const LayerOf& of, const at::Tensor& x, const Dense& dense) {
  const at::Tensor degrees = dense.degrees - dense.loops, scale = degrees.add(1).rsqrt();
  at::Tensor shares = dense.shares.clone();
  shares.fill_diagonal_(0);
  const at::Tensor sums = shares.sum(1, true);
  shares = at::where(sums > 0, shares * degrees / sums, at::zeros_like(shares));
  const at::Tensor sum = scale * shares.mm(scale * x) + x / degrees.add(1);
  return sum.mm(of.at("lin.weight").t()) + of.at("bias");
}

at::Tensor gin(const LayerOf& of, const at::Tensor& x, const Dense& dense) {
  const at::Tensor sum = dense.shares.mm(x) + (1 + of.at("eps")) * x;
  const at::Tensor hidden = at::relu(sum.mm(of.at("nn.lins.0.weight").t()) + of.at("nn.lins.0.bias"));
  return hidden.mm(of.at("nn.lins.1.weight").t()) + of.at("nn.lins.1.bias");
}

at::Tensor gat(const LayerOf& of, const at::Tensor& x, const Dense& dense) {
  const at::Tensor src = of.at("att_src"), dst = of.at("att_dst");  // [1, heads, cols]
  const std::int64_t heads = src.size(1), cols = src.size(2);
  const at::Tensor mapped = x.mm(of.at("lin.weight").t()).view({x.size(0), heads, cols});
  at::Tensor counts = dense.shares.clone();
  counts.fill_diagonal_(1);
  std::vector<at::Tensor> outs;
  for (std::int64_t h = 0; h < heads; ++h) {
    const at::Tensor rows = mapped.select(1, h);
    const at::Tensor scores = at::leaky_relu(
        rows.mv(dst.select(1, h).squeeze(0)).unsqueeze(1) + rows.mv(src.select(1, h).squeeze(0)), 0.2);
    const at::Tensor p = counts * at::exp(scores - scores.max());
    outs.push_back((p / p.sum(1, true)).mm(rows));
  }
  const at::Tensor all = at::stack(outs, 1);
  const at::Tensor out = (of.last ? all.mean(1) : all.reshape({x.size(0), heads * cols})) + of.at("bias");
  return of.has("res.weight") ? out + x.mm(of.at("res.weight").t()) : out;
}

at::Tensor apply(const ModelCase& kind, const LayerOf& of, const at::Tensor& x, const Dense& dense) {
  switch (kind.kind) {
    case nn::ModelKind::gcn:
      return gcn(of, x, dense);
    case nn::ModelKind::gin:
      return gin(of, x, dense);
    case nn::ModelKind::gat:
      return gat(of, x, dense);
    default:  // sage
      break;
  }
  if (kind.aggregate == nn::Aggregate::max) return sage(of, x, largest_of_neighbors(x, dense));
  return sage(of, x, dense.shares.mm(x) / dense.degrees.clamp_min(1));
}

}  // namespace

std::unique_ptr<graph::Graph> hub_graph(const HubGraphOptions& options) {
  auto graph = random_dataset({.num_nodes = options.num_nodes,
                               .num_edges = 1,
                               .feature_cols = options.feature_cols,
                               .num_classes = options.num_classes,
                               .seed = options.seed});
  graph::CscGraph csc{.num_nodes = options.num_nodes,
                      .indptr = std::vector<Count>(at(options.num_nodes) + 1),
                      .indices = {},
                      .edge_ids = {},
                      .weights = {}};
  for (const Edge& e : random_edges(options)) {
    ++csc.indptr[at(e.to) + 1];
    csc.indices.push_back(e.from);
    csc.edge_ids.push_back(e.id);
    csc.weights.push_back(e.weight);
  }
  std::partial_sum(csc.indptr.begin(), csc.indptr.end(), csc.indptr.begin());
  graph->structure = std::move(csc);
  return graph;
}

at::Tensor DenseForward::logits() const {
  const at::NoGradGuard no_grad;
  const std::vector<float> features = features_as_floats(*graph);
  at::Tensor x = at::tensor(features).to(at::kDouble).view({graph->num_nodes(), -1});
  const auto parameters = model->named_parameters();
  for (int layer = 0; layer < model->num_layers(); ++layer) {
    const LayerOf of{parameters, layer, layer + 1 == model->num_layers()};
    const Dense dense = dense_of(*graph, by_weight[at(layer)]);
    x = apply(kind, of, x, dense);
    if (!of.last) x = at::relu(x);
  }
  return x;
}

std::shared_ptr<nn::BlockModel> hub_model(const ModelCase& kind, int num_layers) {
  const at::NoGradGuard no_grad;
  std::vector<int> heads{3};
  for (int layer = 1; kind.residual && layer < num_layers; ++layer) heads.push_back(layer + 3);
  auto model = nn::make_model({.kind = kind.kind,
                               .aggregate = kind.aggregate,
                               .in_cols = 7,
                               .hidden = 24,
                               .out_cols = 5,
                               .num_layers = num_layers,
                               .heads = heads,
                               .residual = kind.residual,
                               .seed = 2});
  for (at::Tensor& p : model->parameters()) p.add_(0.02);
  return model;
}

LoadedGraph::LoadedGraph(const comm::Communicator& world, const graph::Graph& graph, const LoadCase& load)
    : world_(world),
      topology_(
          comm::discover(world, {.ranks_per_machine = load.ranks_per_machine, .compute = load.compute})),
      machine_(world, topology_),
      folder_(common_folder(load.name + std::to_string(world.size()))) {
  if (world.rank() == 0) parts_.emplace(graph, 3, folder_ / "parts", 5);
  world.barrier();
  graph_.emplace(batches::load_parts(folder_ / "parts", {&world_, &topology_, &machine_},
                                     {.edge_weights = true,
                                      .in_degrees = true,
                                      .degrees_of_loops = load.degrees_of_loops,
                                      .gpu_budget_bytes = load.gpu_budget_bytes}));
}

LoadedGraph::~LoadedGraph() {
  graph_->close(machine_);
  world_.barrier();
  if (world_.rank() == 0) std::filesystem::remove_all(folder_);
  machine_.close();
}

train::EvaluationContext LoadedGraph::context(ThreadPool& pool) const {
  return {.ranks = {&world_, &topology_, &machine_},
          .graph = &*graph_,
          .task = task_.get(),
          .targets = task_->targets(*graph_),
          .pool = &pool,
          .seed = 1,
          .alive = [] {}};
}

at::Tensor predicted(nn::BlockModel& model, const train::EvaluationContext& context,
                     const std::filesystem::path& folder) {
  train::LayerwiseEvaluator evaluator(context);
  const std::filesystem::path path = folder / "logits.npy";
  EXPECT_FALSE(evaluator.predict(model, path.string()).stopped);
  context.ranks.world->barrier();
  at::Tensor logits =
      at::empty({context.graph->manifest().book.num_nodes(), model.output_cols(model.num_layers() - 1)});
  std::ifstream file(path, std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(logits.nbytes()), std::ios::end);
  file.read(static_cast<char*>(logits.mutable_data_ptr()), static_cast<std::streamsize>(logits.nbytes()));
  EXPECT_TRUE(file.good()) << path;
  context.ranks.world->barrier();
  evaluator.close();
  return logits;
}

void expect_close(const at::Tensor& got, const at::Tensor& wanted, double tolerance) {
  const at::Tensor reference = wanted.to(at::kDouble);
  const at::Tensor off = (got.to(at::kDouble) - reference).abs() / reference.abs().clamp_min(1);
  EXPECT_LT(off.max().item<double>(), tolerance);
}

}  // namespace strata::test
