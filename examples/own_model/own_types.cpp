// SPDX-License-Identifier: Apache-2.0
// A model and a choice of neighbors of one's own, on a graph of several types: README.md.
#include <fmt/format.h>
#include <torch/torch.h>

#include "strata/batches/node_loader.hpp"
#include "strata/graph/relation_ranges.hpp"

using namespace strata;
constexpr comm::TopologyOptions kOnCpu{.compute = comm::TopologyOptions::Compute::cpu};

/// Over each relation, the neighbors of the lowest numbers: the oldest ones. REQUIRES: fanouts are not -1.
struct OldestNeighbors final : sampling::NeighborChooser {
  explicit OldestNeighbors(const batches::Graph& of) : graph(of), relations(of.manifest().types) {}
  void choose(const sampling::PickQuery& query, sampling::ChosenNeighbors& out) override {
    const batches::Graph::InEdges all = graph.in_edges(query.nodes);  // by relation, then by number
    out = {};
    std::size_t edge = 0;
    for (const Count degree : all.counts) {
      std::vector<int> taken(relations.size());
      out.counts.push_back(0);
      for (Count i = 0; i < degree; ++i, ++edge) {
        if (taken[relations.relation_of(all.edge_ids[edge])]++ >= query.fanout) continue;
        out.neighbors.push_back(all.sources[edge]);
        out.edge_ids.push_back(all.edge_ids[edge]);
        ++out.counts.back();
      }
    }
  }
  const batches::Graph& graph;
  graph::RelationRanges relations;
};

template <typename T>  // memory of a batch
at::Tensor wrap(const T* data, at::IntArrayRef sizes) {
  return at::from_blob(const_cast<T*>(data), sizes, at::CppTypeToScalarType<T>::value);
}

/// W [a node's row | the mean of its neighbors' rows over the first relation | over the second one | ...]
at::Tensor apply(torch::nn::Linear& map, const at::Tensor& x, const sampling::Block& block, at::Tensor ends) {
  const at::Tensor edge_ids = wrap(block.edge_ids, {block.num_edges});
  const at::Tensor degrees = wrap(block.indptr, {block.num_dst + 1}).diff();
  const at::Tensor row = at::arange(block.num_dst).repeat_interleave(degrees) * ends.size(0) +
                         at::bucketize(edge_ids, ends, false, /*right=*/true);
  const auto sum = [&](const at::Tensor& of_edges) {
    return at::zeros({block.num_dst * ends.size(0), of_edges.size(1)}).index_add(0, row, of_edges);
  };
  const at::Tensor means = sum(x.index_select(0, wrap(block.indices, {block.num_edges}))) /
                           sum(at::ones({block.num_edges, 1})).clamp_min(1);
  return map(at::cat({x.narrow(0, 0, block.num_dst), means.view({block.num_dst, -1})}, 1));
}

int main(int argc, char** argv) {
  const comm::World world(&argc, &argv);
  const auto runtime = std::make_shared<batches::Runtime>(world, kOnCpu);
  const char* source = argc > 1 ? argv[1] : "synthetic:igbh,scale=0.0001,cols=16";
  const auto graph = batches::Graph::load(runtime, source, {.edge_ids = true});
  batches::NodeLoaderOptions options{.batch_size = 500, .shuffle = true, .sampler = {}};
  options.sampler = {.fanouts = {5, 5}, .chooser = std::make_shared<OldestNeighbors>(*graph)};
  batches::NodeLoader loader(graph, options);
  const at::Tensor ends = torch::tensor(graph->manifest().types.edge_offsets).slice(0, 1);  // of relations
  torch::nn::Linear first(graph->manifest().feature_cols * (1 + ends.size(0)), 32);
  torch::nn::Linear second(32 * (1 + ends.size(0)), graph->manifest().num_classes);
  torch::optim::Adam adam({first->weight, first->bias, second->weight, second->bias}, 0.01);
  for (std::uint32_t epoch = 0; epoch < 5; ++epoch) {
    loader.begin(epoch);
    while (const auto batch = loader.next({})) {
      const at::Tensor x = wrap(batch->features, {batch->num_nodes(), batch->feature_cols});
      const at::Tensor hidden = apply(first, x, batch->sample.blocks[0], ends).relu();
      const at::Tensor loss = at::cross_entropy_loss(apply(second, hidden, batch->sample.blocks[1], ends),
                                                     wrap(batch->labels, {batch->num_seeds()}));
      adam.zero_grad();
      loss.backward();
      adam.step();
      if (batch->step_in_epoch == 0) fmt::print("epoch {} loss {:.4f}\n", epoch, loss.item<double>());
    }
  }
  graph->close();
  runtime->close();
}
