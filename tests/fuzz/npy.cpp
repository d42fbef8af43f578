// SPDX-License-Identifier: Apache-2.0
// A .npy file, and everything that readers make of its array.
#include "strata/graph/npy.hpp"

#include "fuzz_target.hpp"
#include "readers/columns.hpp"
#include "readers/edge_weights.hpp"

using namespace strata;
using namespace strata::fuzz;

namespace {

constexpr Count kNodes = 64;

void use(const graph::NpyArray& array, ThreadPool& pool) {
  expect_result_or_error([&] { graph::ids_of(array); });
  expect_result_or_error([&] { graph::labels_of(array); });
  expect_result_or_error([&] { graph::edge_weights_of(array, nullptr); });
  expect_result_or_error([&] { graph::edge_weights_of(array, 1, nullptr); });
  const Count rows = array.shape.empty() ? 0 : array.shape[0];
  expect_result_or_error([&] { graph::node_weights_of(array, rows); });
  expect_result_or_error([&] { graph::normalized(graph::features_of(array, rows, pool), pool); });
  expect_result_or_error([&] {
    const graph::EdgeArray edges = graph::edges_of(array);
    graph::build_csc(kNodes, edges.list, {.add_reverse = true}, pool);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static ThreadPool pool(1);
  const InputFile file({data, size});
  expect_result_or_error([&] { use(graph::read_npy(file.path()), pool); });
  return 0;
}
