// SPDX-License-Identifier: Apache-2.0
// A table of text, plain or gzip; the first byte chooses the type and what is expected of it.
#include "readers/csv.hpp"

#include "fuzz_target.hpp"
#include "readers/columns.hpp"
#include "readers/edge_weights.hpp"

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
  if constexpr (std::is_same_v<T, double>) graph::labels_of(table, path);
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
    else
      read<NodeId>(file.path(), choice, pool);
  });
  return 0;
}
