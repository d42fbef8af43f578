// SPDX-License-Identifier: Apache-2.0
#include "generate/generate_cuda.hpp"

#include "strata/comm/machine.hpp"
#include "strata/graph/synthetic.hpp"

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
void check_host_room(const GenerateTask& task, const graph::Manifest& most, std::int64_t gpu_bytes) {
  const std::int64_t least = plan::least_host_bytes(
      whole_sizes(most, task.load), whole_features(most, task.load.feature_format), gpu_bytes);
  const double lists = task.spec.kind == Kind::lognormal ? static_cast<double>(sizeof(Count)) : 0;
  task.machine.together([&] {
    graph::check_room(task.spec,
                      static_cast<double>(least) + (1 + lists) * static_cast<double>(task.spec.nodes));
  });
}

/// GPUs make the features, and for kind=lognormal the structure, too.
class GeneratedSource : public WholeSource {
 public:
  GeneratedSource(const GenerateTask& task, std::int64_t gpu_bytes)
      : WholeSource(task.machine, task.load), task_(task) {
    state_->manifest = manifest_of(task_);
    check_host_room(task_, state_->manifest, gpu_bytes);
    if (task_.spec.kind == Kind::lognormal) {
      generate_lognormal(task_, *state_);
      complete();
    } else {
      generate_structure_on_cpu();
    }
  }

  void fill() override { generate_features(task_, state_->regions->labels.data(), *state_->features); }

 private:
  /// The structure comes from the CPU of the first rank.
  void generate_structure_on_cpu() {
    std::unique_ptr<graph::Graph> graph;
    machine_.together([&] {
      if (machine_.rank() > 0) return;
      graph::SyntheticSpec structure = task_.spec;
      structure.features = 0;
      ThreadPool all_cores(task_.read.num_threads > 0 ? task_.read.num_threads
                                                      : comm::resources_of(machine_).cores_alone);
      graph = std::make_unique<graph::Graph>(graph::generate(structure, task_.read, all_cores));
      if (task_.spec.features > 0) {
        graph->features = {.rows = task_.spec.nodes,
                           .cols = task_.spec.features,
                           .dtype = feature_type(task_),
                           .data = nullptr,
                           .keep_alive = nullptr};
      }
    });
    take(graph.get());
  }

  GenerateTask task_;
};

}  // namespace

std::unique_ptr<GraphSource> generate_on_gpus(const GenerateTask& task, std::int64_t gpu_bytes) {
  graph::check_direction(task.spec, task.read);
  return std::make_unique<GeneratedSource>(task, gpu_bytes);
}

}  // namespace strata::store
