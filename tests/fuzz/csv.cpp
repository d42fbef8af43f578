// SPDX-License-Identifier: Apache-2.0
// A table of text, plain or gzip; the first byte chooses the type and what is expected of it, or that it is
// about the nodes of a graph.
#include "readers/csv.hpp"

#include "fuzz_target.hpp"
#include "readers/columns.hpp"
#include "readers/edge_weights.hpp"
#include "readers/node_files.hpp"

using namespace strata;
using namespace strata::fuzz;

namespace {

template <typename T>
void read(const std::string& path, unsigned choice, ThreadPool& pool) {
  graph::CsvExpectation expected{.rows = std::nullopt, .cols = std::nullopt, .rows_from = "num-node-list"};
  if ((choice & 4) != 0) expected.rows = choice >> 4;
  if ((choice & 8) != 0) expected.cols = 2;
  const graph::CsvTable<T> table = graph::read_csv<T>(path, expected, pool);
  if constexpr (std::is_same_v<T, float>) graph::read_csv_weights(path, 0, expected, pool, nullptr);
  if constexpr (std::is_same_v<T, double>) graph::read_csv_labels(path, expected, pool, nullptr);
  graph::count_csv_rows(path);
}

/// Features, labels or a split of a graph whose nodes may have names.
void read_about_nodes(const std::string& path, unsigned choice, ThreadPool& pool) {
  graph::Graph graph;
  graph.structure.num_nodes = choice >> 4;
  for (NodeId v = 0; (choice & 8) != 0 && v < graph.num_nodes(); ++v)
    graph.node_names += std::to_string(7 * v) + "\n";
  expect_result_or_error([&] { graph::nodes_of_file(path, pool); });
  expect_result_or_error([&] { graph::read_features_file(graph, path, pool, nullptr); });
  expect_result_or_error([&] { graph::read_labels_file(graph, path, pool, nullptr); });
  expect_result_or_error([&] { graph::read_split_file(graph, path, pool); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static ThreadPool pool(1);
  if (size == 0) return 0;
  const InputFile file({data + 1, size - 1});
  const unsigned choice = data[0];
  expect_result_or_error([&] {
    if (choice % 4 == 0)
      read<float>(file.path(), choice, pool);
    else if (choice % 4 == 1)
      read<double>(file.path(), choice, pool);
    else if (choice % 4 == 2)
      read<NodeId>(file.path(), choice, pool);
    else
      read_about_nodes(file.path(), choice, pool);
  });
  return 0;
}
