// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string_view>

#include "parts/part_source.hpp"
#include "strata/graph/synthetic.hpp"

/// A synthetic graph of planted communities that can be given instead of a partition directory. Parts are not
/// read but generated when they are opened, so each machine makes only its own parts.
///
/// "planted:parts=4,within=0.9,KEY=VALUE,...": the communities are the parts [1], which are ranges of equal
/// length. An edge comes from its own part with probability `within` [0.9], else from any other part. The
/// other keys and presets are those of parse_synthetic(); degrees and neighbors are skewed as for lognormal
/// graphs. Original ids are global ids.
namespace strata::graph {

struct PlantedSpec {
  SyntheticSpec shape;
  int parts = 1;
  double within = 0.9;
};

bool is_planted(std::string_view name);
/// Throws InputError for unknown keys and values out of range.
PlantedSpec parse_planted(std::string_view name);
std::string digest_of(const PlantedSpec& spec);  ///< as for a SyntheticSpec
/// The manifest of the graph. Counts the edges of all parts on all cores, in about 10 ns per node and core.
Manifest planted_manifest(const PlantedSpec& spec);
/// A part that holds only its indptr; everything else is made when it is read.
std::unique_ptr<PartSource> make_planted_part(const PlantedSpec& spec, int part);

}  // namespace strata::graph
