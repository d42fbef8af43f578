// SPDX-License-Identifier: Apache-2.0
// A chunk of edges in DGL's format beside files that are right: the first byte says of which kind it is.
#include <array>

#include "scratch_folder.hpp"
#include "sound_files.hpp"
#include "strata/graph/read_graph.hpp"

using namespace strata;
using namespace strata::fuzz;

namespace {

constexpr std::array kFormats = {R"({"name": "numpy"})", R"({"name": "csv", "delimiter": " "})",
                                 R"({"name": "csv", "delimiter": ","})"};

/// Of 4 nodes and of 2 edges, in one chunk.
std::string metadata(const char* format) {
  return std::string(R"({"node_type": ["paper"], "num_nodes_per_chunk": [[4]],
 "edge_type": ["cites"], "num_edges_per_chunk": [[2]],
 "edges": {"cites": {"format": )") +
         format + R"(, "data": ["edges"]}}})";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchFolder folder;
  if (size == 0) return 0;
  const std::string text = metadata(kFormats[data[0] % kFormats.size()]);
  folder.write("metadata.json", {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  folder.write("edges", {data + 1, size - 1});
  expect_result_or_error([] { graph::read_graph("dgl:" + folder.path().string(), {.num_threads = 1}); });
  return 0;
}
