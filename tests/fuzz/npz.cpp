// SPDX-License-Identifier: Apache-2.0
// A .npz archive: its directory, and every array in it.
#include "fuzz_target.hpp"
#include "readers/numpy/sparse_matrix.hpp"
#include "strata/graph/npy.hpp"

using namespace strata;
using namespace strata::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const InputFile file({data, size});
  expect_result_or_error([&] {
    const graph::NpzFile archive(file.path());
    for (const std::string& name : archive.names()) {
      expect_result_or_error([&] { archive.describe(name).size(); });
      expect_result_or_error([&] { archive.array(name).size(); });
    }
  });
  static ThreadPool pool(1);
  static graph::Assembly assembly{.pool = pool};
  expect_result_or_error([&] {
    const graph::SparseEdges edges = graph::sparse_edges(file.path(), assembly);
    if (edges.num_nodes.value_or(0) > 1'000'000) return;
    graph::build_csc(
        edges.num_nodes.value_or(graph::num_nodes_for(graph::largest_id(edges.list, nullptr), file.path())),
        edges.list, {}, pool);
  });
  return 0;
}
