// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "machine_graph_state.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/synthetic.hpp"
#include "strata/store/open_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"
#if STRATA_WITH_CUDA
#include "generate/generate_cuda.hpp"
#endif

namespace strata::store {
namespace {

using Clock = std::chrono::steady_clock;

std::unique_ptr<graph::Graph> generate_on_first_rank(const graph::SyntheticSpec& spec,
                                                     const graph::ReadOptions& read,
                                                     const comm::Machine& machine) {
  std::unique_ptr<graph::Graph> graph;
  machine.together([&] {
    if (machine.rank() > 0) return;
    ThreadPool all_cores(read.num_threads > 0 ? read.num_threads : comm::resources_of(machine).cores_alone);
    graph = std::make_unique<graph::Graph>(graph::generate(spec, read, all_cores));
  });
  return graph;
}

/// The part of the graph's manifest that is needed to refuse impossible options.
graph::Manifest outline_of(const graph::SyntheticSpec& spec) {
  graph::Manifest manifest;
  manifest.name = graph::synthetic_name(spec);
  manifest.has_edge_weights = spec.weights != graph::SyntheticSpec::Weights::none;
  return manifest;
}

void log_time(const comm::Machine& machine, const graph::Manifest& manifest, Clock::time_point start) {
  if (machine.rank() > 0) return;
  spdlog::info("{} of {} nodes and {} edges generated in {}", manifest.name,
               format_count(manifest.book.num_nodes()), format_count(manifest.num_edges),
               format_seconds(std::chrono::duration<double>(Clock::now() - start).count()));
}

}  // namespace

OpenGraph OpenGraph::generate(const graph::SyntheticSpec& spec, const graph::ReadOptions& read,
                              const comm::Machine& machine, const LoadOptions& options,
                              [[maybe_unused]] std::int64_t gpu_bytes, [[maybe_unused]] ThreadPool& pool) {
  const auto start = Clock::now();
  check_options(outline_of(spec), options);
#if STRATA_WITH_CUDA
  if (tensor::gpus_of(machine).size() > 0 && options.feature_format == plan::FeatureFormat::stored) {
    auto made = generate_on_gpus(
        {.spec = spec, .read = read, .load = options, .machine = machine, .pool = pool}, gpu_bytes);
    log_time(machine, made->state().manifest, start);
    return OpenGraph(std::move(made));
  }
#endif
  OpenGraph generated = of_graph(generate_on_first_rank(spec, read, machine), machine, options);
  log_time(machine, generated.manifest(), start);
  return generated;
}

}  // namespace strata::store
