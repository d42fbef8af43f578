// SPDX-License-Identifier: Apache-2.0
// A GraphBolt metadata.yaml beside arrays that are right.
#include <cctype>
#include <filesystem>

#include "scratch_folder.hpp"
#include "sound_files.hpp"
#include "strata/graph/read_graph.hpp"

using namespace strata;
using namespace strata::fuzz;

namespace {

/// A number of nodes of 7 to 12 digits rightly takes up to as much memory as the host has.
bool names_many_nodes(std::string_view text) {
  std::size_t digits = 0;
  bool many = false;
  for (const char c : text) {
    const bool goes_on = std::isxdigit(static_cast<unsigned char>(c)) != 0;
    many |= !goes_on && digits > 6 && digits < 13;
    digits = goes_on ? digits + 1 : 0;
  }
  return many || (digits > 6 && digits < 13);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchFolder folder;
  static const bool prepared = [] {
    write_graphbolt_arrays(folder.path());
    return true;
  }();
  if (!prepared || names_many_nodes(text_of({data, size}))) return 0;
  folder.write("metadata.yaml", {data, size});
  expect_result_or_error([] {
    graph::read_graph("graphbolt:" + folder.path().string(), {.normalize_features = true, .num_threads = 1});
  });
  return 0;
}
