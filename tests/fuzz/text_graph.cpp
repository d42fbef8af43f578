// SPDX-License-Identifier: Apache-2.0
// Graphs in text files. The first byte says which format, and how its ids and columns are read.
#include <array>
#include <string>

#include "fuzz_target.hpp"
#include "strata/graph/read_graph.hpp"

using namespace strata;
using namespace strata::fuzz;

namespace {

constexpr std::array kForms = {"metis:{}",
                               "mtx:{}",
                               "mtx:{},values=ignore",
                               "csv:{}",
                               "csv:{},ids=sparse,weight=2",
                               "csv:{},ids=string,separator=comma",
                               "snap:{},ids=string,source=2,target=0",
                               "snap:{},separator=space,header=no"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string form = kForms[data[0] % kForms.size()];
  const Bytes rest(data + 1, size - 1);
  if (has_long_number(text_of(rest))) return 0;
  const InputFile file(rest);
  const std::string spec =
      form.substr(0, form.find('{')) + std::string(file.path()) + form.substr(form.find('}') + 1);
  for (const auto direction :
       {graph::ReadOptions::Direction::automatic, graph::ReadOptions::Direction::undirected})
    expect_result_or_error([&] { graph::read_graph(spec, {.direction = direction, .num_threads = 1}); });
  return 0;
}
