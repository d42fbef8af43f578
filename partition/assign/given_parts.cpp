// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "strata/graph/part_file.hpp"
#include "strata/partition/build.hpp"
#include "strata/util/error.hpp"

namespace strata::partition {

GivenParts read_given_parts(const std::filesystem::path& directory) {
  const graph::PartsOrigin origin{directory};
  const graph::Manifest manifest = graph::read_manifest(origin);
  GivenParts result;
  result.count = manifest.book.num_parts();
  result.of_node.assign(at(manifest.book.num_nodes()), -1);
  std::vector<NodeId> ids;
  for (int part = 0; part < result.count; ++part) {
    const graph::PartReader reader = graph::PartReader::open(origin, manifest, part);
    ids.resize(at(reader.num_inner()));
    reader.read_original_ids(0, reader.num_inner(), ids.data());
    for (const NodeId v : ids) {
      if (v < 0 || v >= manifest.book.num_nodes() || result.of_node[at(v)] >= 0)
        throw InputError(fmt::format("{}: the parts do not make one graph (node {})", directory.string(), v),
                         "Run strata-partition verify, and build the parts again.");
      result.of_node[at(v)] = part;
    }
  }
  return result;
}

}  // namespace strata::partition
