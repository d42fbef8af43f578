// SPDX-License-Identifier: Apache-2.0
// A part file beside the manifest that was written with it. All that is read is compared with the manifest's
// hashes; STRATA_FUZZ_UNVERIFIED=1 in the environment leaves that out, and so tries HDF5 more than the
// reader.
#include "scratch_folder.hpp"
#include "sound_files.hpp"
#include "strata/graph/part_file.hpp"

using namespace strata;
using namespace strata::fuzz;

namespace {

template <typename T, typename Read>
void read_all(Count count, const Read& read) {
  std::vector<T> values(at(count));
  expect_result_or_error([&] { read(values.data()); });
}

void use(const graph::PartReader& part, const graph::Manifest& manifest) {
  const Count nodes = part.num_inner(), edges = part.num_edges();
  read_all<Count>(nodes + 1, [&](Count* out) { part.read_indptr(0, nodes + 1, out); });
  read_all<NodeId>(edges, [&](NodeId* out) { part.read_indices(0, edges, out); });
  read_all<EdgeId>(edges, [&](EdgeId* out) { part.read_edge_ids(0, edges, out); });
  read_all<float>(edges, [&](float* out) { part.read_weights(0, edges, out); });
  read_all<NodeId>(nodes, [&](NodeId* out) { part.read_original_ids(0, nodes, out); });
  read_all<std::int32_t>(nodes, [&](std::int32_t* out) { part.read_labels(0, nodes, out); });
  read_all<std::int32_t>(nodes, [&](std::int32_t* out) { part.read_clusters(0, nodes, out); });
  read_all<float>(nodes * manifest.feature_cols, [&](float* out) { part.read_features(0, nodes, out); });
  expect_result_or_error([&] { part.read_split(graph::Split::train); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchFolder folder;
  static const graph::Manifest manifest = [] {
    write_partition(folder.path());
    return graph::read_manifest(folder.path());
  }();
  static const graph::Verify verify =
      std::getenv("STRATA_FUZZ_UNVERIFIED") == nullptr ? graph::Verify::on : graph::Verify::off;
  folder.write("part-00000.h5", {data, size});
  expect_result_or_error([] { use(graph::PartReader::open(folder.path(), manifest, 0, verify), manifest); });
  return 0;
}
