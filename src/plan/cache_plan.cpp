// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "strata/graph/part_file.hpp"
#include "strata/graph/relation_ranges.hpp"
#include "strata/plan/forecast.hpp"

namespace strata::plan {
namespace {

/// What is kept of the nodes, and what a batch reads of it.
struct Wanted {
  double bytes = 0;  ///< of one
  double reads = 0;  ///< of all
  double wire = 0;   ///< bytes on the link of asking for one
};

/// The hottest 2^-15 of the nodes, the further ones up to 2^-14, and so on.
std::vector<KeepGroup> groups_of(const BatchProfile& profile, double others, const Wanted& wanted) {
  std::vector<KeepGroup> groups;
  double nodes = 0, share = 0;
  for (int level = BatchProfile::kLevels - 1; level >= 0; --level) {
    const double below = std::floor(std::ldexp(others, -level));
    if (below == nodes) continue;  // less than a node
    const double share_below = profile.remote_heat[at(level)];
    groups.push_back({.count = static_cast<Count>(below - nodes),
                      .bytes = static_cast<std::int64_t>((below - nodes) * wanted.bytes),
                      .saved = (share_below - share) * wanted.reads * wanted.wire});
    nodes = below;
    share = share_below;
  }
  return groups;
}

double mean_list_bytes(const graph::Manifest& manifest, int ranks) {
  const double degree =
      static_cast<double>(manifest.num_edges) / static_cast<double>(manifest.book.num_nodes());
  const std::int64_t id = id_bytes_of(manifest.book.num_nodes());
  return static_cast<double>(kept_list_overhead(id, ranks)) + degree * static_cast<double>(id);
}

}  // namespace

CopiedNodes CopiedNodes::of(const graph::Manifest& manifest) {
  const graph::GraphTypes& types = manifest.types;
  CopiedNodes copied;
  for (const std::size_t type : manifest.replicated_types) {
    copied.nodes += graph::nodes_of_type(types, type, manifest.book.num_nodes()).count;
    for (std::size_t r = 0; r < types.edges.size(); ++r)
      if (types.edges[r].destination == types.nodes[type])
        copied.entries += graph::edges_of_relation(types, r, manifest.num_edges).count;
  }
  return copied;
}

std::int64_t CopiedNodes::bytes(const HaloBudget& keeps, const RegionSizes& sizes, int ranks) const {
  const std::int64_t rows = nodes * kept_row_bytes(keeps.row_bytes, ranks),
                     lists = nodes * kept_list_overhead(sizes.id_bytes(), ranks) +
                             entries * (sizes.edge_bytes() + kSublistBytes);
  return (keeps.rows ? rows : 0) + (keeps.lists ? lists : 0);
}

std::int64_t sent_row_bytes(const RunShape& run, const graph::Manifest& manifest) {
  if (manifest.feature_code || run.feature_format != FeatureFormat::stored)
    return feature_row_bytes(manifest, run.feature_format);
  const bool narrow = run.rows_travel_in_bf16;
  return manifest.feature_cols * static_cast<std::int64_t>(narrow ? sizeof(std::uint16_t) : sizeof(float));
}

WireBytes wire_bytes(const RunShape& run, const graph::Manifest& manifest) {
  WireBytes wire = wire_bytes(id_bytes_of(manifest.book.num_nodes()), sent_row_bytes(run, manifest));
  if (manifest.types.several()) wire.pick += sizeof(EdgeId);  // by which layers know relations
  return wire;
}

HaloOffer offer_of(const ExpectedOffer& e) {
  const double visits = e.profile.remote_visits();
  double picks = 0;
  for (const BatchProfile::Hop& hop : e.profile.hops) picks += hop.remote_picks;
  const double mean_picks = picks / std::max(1.0, visits);
  const auto row_bytes =
      static_cast<double>(kept_row_bytes(feature_row_bytes(e.manifest, e.run.feature_format), e.ranks));
  return {.mean_picks = mean_picks,
          .row_groups = groups_of(e.profile, e.others,
                                  {.bytes = row_bytes, .reads = e.profile.remote_inputs, .wire = e.wire.row}),
          .list_groups = groups_of(e.profile, e.others,
                                   {.bytes = mean_list_bytes(e.manifest, e.ranks),
                                    .reads = visits,
                                    .wire = e.wire.of_list(mean_picks)})};
}

}  // namespace strata::plan
