// SPDX-License-Identifier: Apache-2.0
// A metadata.json of DGL's chunked format beside arrays that are right.
#include "scratch_folder.hpp"
#include "sound_files.hpp"
#include "strata/graph/read_graph.hpp"

using namespace strata;
using namespace strata::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchFolder folder;
  static const bool prepared = [] {
    write_dgl_chunks(folder.path());
    return true;
  }();
  if (!prepared || has_long_number(text_of({data, size}))) return 0;
  folder.write("metadata.json", {data, size});
  expect_result_or_error([] { graph::read_graph("dgl:" + folder.path().string(), {.num_threads = 1}); });
  return 0;
}
