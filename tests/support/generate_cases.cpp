// SPDX-License-Identifier: Apache-2.0
#include "support/generate_cases.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>

#include "strata/batches/placed_graph.hpp"
#include "support/id_spans.hpp"

namespace strata::test {
namespace {

using graph::EdgePolicy;
using store::MachineGraph;

template <typename T>
std::vector<T> copy_of(const T* data, Count size) {
  return data == nullptr ? std::vector<T>() : std::vector<T>(data, data + size);
}

template <typename T>
std::vector<T> copy_of(std::span<const T> values) {
  return {values.begin(), values.end()};
}

/// The bits of all feature rows, from wherever they lie.
std::vector<std::byte> rows_of(const tensor::ChunkTensor& features) {
  const tensor::TensorSpec& spec = features.spec();
  std::vector<std::byte> rows(at(spec.rows) * spec.row_bytes(), std::byte{0xFB});
  features.read_rows(0, spec.rows, rows.data());
  return rows;
}

void expect_same_manifest(const graph::Manifest& made, const graph::Manifest& expected) {
  EXPECT_EQ(made.name, expected.name);
  EXPECT_EQ(made.book.num_nodes(), expected.book.num_nodes());
  EXPECT_EQ(made.num_edges, expected.num_edges);
  EXPECT_EQ(made.undirected, expected.undirected);
  EXPECT_EQ(made.has_edge_weights, expected.has_edge_weights);
  EXPECT_EQ(made.feature_cols, expected.feature_cols);
  EXPECT_EQ(made.feature_dtype, expected.feature_dtype);
  EXPECT_EQ(made.num_classes, expected.num_classes);
  EXPECT_EQ(made.has_labels, expected.has_labels);
  EXPECT_EQ(made.num_train, expected.num_train);
  EXPECT_EQ(made.num_valid, expected.num_valid);
  EXPECT_EQ(made.num_test, expected.num_test);
}

void expect_same_view(const store::GraphView& made, const store::GraphView& expected) {
  ASSERT_EQ(made.num_nodes, expected.num_nodes);
  EXPECT_EQ(made.first_node, expected.first_node);
  ASSERT_EQ(made.num_local, expected.num_local);
  EXPECT_EQ(copy_of(made.indptr, made.num_local + 1), copy_of(expected.indptr, expected.num_local + 1));
  EXPECT_EQ(made.indices.wide, expected.indices.wide);
  EXPECT_EQ(ids_of(made.indices), ids_of(expected.indices));
  EXPECT_EQ(ids_of(made.edge_ids), ids_of(expected.edge_ids));
  EXPECT_EQ(copy_of(made.weights, made.indices.size), copy_of(expected.weights, expected.indices.size));
  EXPECT_EQ(ids_of(made.original_ids), ids_of(expected.original_ids));
  EXPECT_EQ(copy_of(made.in_degrees, made.num_nodes), copy_of(expected.in_degrees, expected.num_nodes));
}

void expect_same_graph(const MachineGraph& made, const MachineGraph& expected) {
  expect_same_manifest(made.manifest(), expected.manifest());
  EXPECT_EQ(copy_of(made.machine_offsets()), copy_of(expected.machine_offsets()));
  expect_same_view(made.host_view(), expected.host_view());
  EXPECT_EQ(copy_of(made.labels()), copy_of(expected.labels()));
  EXPECT_EQ(copy_of(made.train_nodes()), copy_of(expected.train_nodes()));
  EXPECT_EQ(copy_of(made.valid_nodes()), copy_of(expected.valid_nodes()));
  EXPECT_EQ(copy_of(made.test_nodes()), copy_of(expected.test_nodes()));
  EXPECT_TRUE(rows_of(made.features()) == rows_of(expected.features())) << "features differ";
}

std::vector<graph::ReadOptions> all_policies() {
  std::vector<graph::ReadOptions> policies;
  for (const EdgePolicy duplicates : {EdgePolicy::keep, EdgePolicy::remove})
    for (const EdgePolicy self_loops : {EdgePolicy::keep, EdgePolicy::remove})
      policies.push_back({.duplicates = duplicates, .self_loops = self_loops});
  return policies;
}

}  // namespace

std::string GenerateCase::str() const {
  return fmt::format(
      "{}, {} duplicates, {} self-loops, normalize {}, row_normalize {}, edge ids {}, in-degrees {}, budget "
      "{}",
      settings, read.duplicates == EdgePolicy::keep ? "keep" : "remove",
      read.self_loops == EdgePolicy::keep ? "keep" : "remove", read.normalize_features, load.row_normalize,
      load.edge_ids, load.in_degrees, load.gpu_budget_bytes);
}

std::vector<GenerateCase> generate_cases(const std::string& kind) {
  constexpr std::int64_t kPlenty = std::int64_t{1} << 28;
  const store::LoadOptions on_gpu{.in_degrees = true, .gpu_budget_bytes = kPlenty};
  const store::LoadOptions row_normalized{.gpu_budget_bytes = kPlenty, .row_normalize = true};
  const std::string settings = fmt::format("kind={},", kind);
  const graph::ReadOptions plain, normalized{.normalize_features = true};
  std::vector<GenerateCase> cases;
  // Of named values only: GCC 12 takes the functions within temporary ones for uninitialized.
  const auto add = [&](const std::string& rest, const graph::ReadOptions& read,
                       const store::LoadOptions& load) {
    GenerateCase& added = cases.emplace_back();
    added.settings = settings + rest;
    added.read = read;
    added.load = load;
  };
  for (const char* const size : {"nodes=1", "nodes=2", "nodes=33,classes=5", "nodes=4099,features=7"})
    add(size, plain, on_gpu);
  for (const char* const type : {"f32", "f16", "bf16"}) {
    const std::string typed = fmt::format("nodes=3001,features=13,noise=2.5,seed=9,dtype={}", type);
    add(typed, plain, on_gpu);
    add(typed, normalized, on_gpu);
    add(typed, plain, row_normalized);
    add(typed, normalized, row_normalized);
  }
  // Nothing fits on the GPU; lookups and a part of the rows do. No features, no training nodes.
  add("nodes=5000,features=100", plain, {});
  add("nodes=5000,features=100", plain, {.gpu_budget_bytes = 1'500'000});
  add("nodes=5000,features=0,train=0,dtype=f16", plain, on_gpu);
  for (const char* const weights : {"uniform", "lognormal", "half-normal"})
    add(fmt::format("nodes=3001,weights={}", weights), plain,
        {.edge_weights = true, .gpu_budget_bytes = kPlenty});
  if (kind != "lognormal") {
    add("nodes=2000", plain, {.edge_ids = true});
    return cases;
  }
  for (const graph::ReadOptions& read : all_policies()) {
    for (const char* const lists : {"nodes=40,edges=1500,sigma=3", "nodes=500,degree=100,sigma=4",
                                    "nodes=6,edges=36,sigma=0", "nodes=40,edges=0", "nodes=5000,edges=3000"})
      add(fmt::format("{},seed=3", lists), read, on_gpu);
  }
  return cases;
}

void expect_generates(const comm::Machine& machine, const GenerateCase& generate_case) {
  SCOPED_TRACE(generate_case.str());
  const graph::SyntheticSpec spec = graph::parse_synthetic(generate_case.settings);
  ThreadPool pool(2);
  MachineGraph made = batches::generate_graph(spec, generate_case.read, machine, generate_case.load, pool);
  auto graph = machine.rank() == 0
                   ? std::make_unique<graph::Graph>(graph::generate(spec, generate_case.read, pool))
                   : nullptr;
  MachineGraph expected = batches::take_graph(std::move(graph), machine, generate_case.load);
  expect_same_graph(made, expected);
  made.close(machine);
  expected.close(machine);
}

}  // namespace strata::test
