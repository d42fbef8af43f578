// SPDX-License-Identifier: Apache-2.0
// One array of IGB beside two that are right: the first byte says which.
#include "scratch_folder.hpp"
#include "sound_files.hpp"
#include "strata/graph/read_graph.hpp"

using namespace strata;
using namespace strata::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchFolder folder;
  if (size == 0 || has_long_number(text_of({data, size}))) return 0;
  write_igb(folder.path());
  folder.write(kIgbFiles[data[0] % kIgbFiles.size()], {data + 1, size - 1});
  expect_result_or_error(
      [] { graph::read_graph("igb:" + folder.path().string() + ",classes=19", {.num_threads = 1}); });
  return 0;
}
