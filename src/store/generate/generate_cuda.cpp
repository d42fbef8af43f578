// SPDX-License-Identifier: Apache-2.0
#include "generate/generate_cuda.hpp"

#include "strata/comm/resources.hpp"
#include "strata/graph/synthetic_pieces.hpp"

namespace strata::store {
namespace {

using Kind = graph::SyntheticSpec::Kind;

/// The type of the features that graph::generate() would make.
DType feature_type(const GenerateTask& task) {
  return task.spec.features == 0 || task.read.normalize_features ? DType::f32 : task.spec.dtype;
}

Count most_edges(const graph::SyntheticSpec& spec) {
  return spec.kind == Kind::grid ? 4 * spec.nodes : spec.edges;
}

graph::Manifest manifest_of(const GenerateTask& task) {
  const graph::SyntheticSpec& spec = task.spec;
  return {.name = graph::synthetic_name(spec),
          .build_id = {},
          .book = graph::PartitionBook({0, spec.nodes}),
          .num_edges = most_edges(spec),
          .undirected = false,
          .has_edge_weights = spec.weights != graph::SyntheticSpec::Weights::none,
          .feature_cols = spec.features,
          .feature_dtype = feature_type(task),
          .num_classes = spec.classes,
          .has_labels = true,
          .num_train = spec.train,
          .num_valid = spec.valid,
          .num_test = spec.test};
}

/// Throws OutOfMemory unless the host has room for the result, the marks of the splits, and the offsets of
/// lists before cleaning. graph::generate() checks its own needs.
void check_host_room(const GenerateTask& task, const graph::Manifest& most) {
  const std::int64_t least = least_host_bytes(WholeGraph::of(most, task.load), task.machine, task.load);
  const double lists = task.spec.kind == Kind::lognormal ? static_cast<double>(sizeof(Count)) : 0;
  task.machine.together([&] {
    graph::check_room(task.spec,
                      static_cast<double>(least) + (1 + lists) * static_cast<double>(task.spec.nodes));
  });
}

/// The structure comes from the CPU of the first rank.
void generate_structure_on_cpu(const GenerateTask& task, GraphState& state) {
  std::unique_ptr<graph::Graph> graph;
  task.machine.together([&] {
    if (task.machine.rank() > 0) return;
    graph::SyntheticSpec structure = task.spec;
    structure.features = 0;
    ThreadPool all_cores(task.read.num_threads > 0 ? task.read.num_threads
                                                   : comm::resources_of(task.machine).cores_alone);
    graph = std::make_unique<graph::Graph>(graph::generate(structure, task.read, all_cores));
    if (task.spec.features > 0) {
      graph->features = {.rows = task.spec.nodes,
                         .cols = task.spec.features,
                         .dtype = feature_type(task),
                         .data = nullptr,
                         .keep_alive = nullptr};
    }
  });
  take_graph(
      graph.get(), task.machine, task.load,
      [&](tensor::ChunkTensor& features, const GraphRegions& regions) {
        generate_features(task, regions.labels.data(), features);
      },
      state);
}

void generate_all_on_gpus(const GenerateTask& task, GraphState& state) {
  generate_lognormal(task, state);
  place_whole_graph(
      WholeGraph::of(state.manifest, task.load), task.machine, task.load,
      [&](tensor::ChunkTensor& features, const GraphRegions& regions) {
        generate_features(task, regions.labels.data(), features);
      },
      state);
}

}  // namespace

void generate_on_gpus(const GenerateTask& task, GraphState& state) {
  graph::check_direction(task.spec, task.read);
  state.manifest = manifest_of(task);
  check_host_room(task, state.manifest);
  if (task.spec.kind == Kind::lognormal) return generate_all_on_gpus(task, state);
  generate_structure_on_cpu(task, state);
}

}  // namespace strata::store
