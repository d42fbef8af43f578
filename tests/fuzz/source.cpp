// SPDX-License-Identifier: Apache-2.0
// What a user calls a graph.
#include "strata/graph/source.hpp"

#include "fuzz_target.hpp"

using namespace strata;
using namespace strata::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  expect_result_or_error([&] { graph::Source source(text_of({data, size})); });
  return 0;
}
