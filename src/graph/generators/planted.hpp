// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string_view>

#include "parts/part_source.hpp"
#include "strata/graph/synthetic.hpp"

/// A synthetic graph of planted communities that stands where a partition directory does: its parts are not
/// read but generated, by whoever opens them. So each machine makes its own part, and none the whole.
///
/// "planted:parts=4,within=0.9,KEY=VALUE,...": the communities are the parts, ranges of equal length; an edge
/// stays within its part with probability `within` [0.9], else it comes from any other; parts [1]. The other
/// keys and presets are those of parse_synthetic; degrees and neighbors are skewed as there (lognormal).
/// Original ids are global ids.
namespace strata::graph {

struct PlantedSpec {
  SyntheticSpec shape;
  int parts = 1;
  double within = 0.9;
};

bool is_planted(std::string_view name);
/// Throws InputError for unknown keys and values out of range.
PlantedSpec parse_planted(std::string_view name);
std::string digest_of(const PlantedSpec& spec);  ///< as that of a SyntheticSpec
/// Counts the edges of all parts, on all cores: some 10 ns a node of one.
Manifest planted_manifest(const PlantedSpec& spec);
/// Holds the part's indptr; all else is made when it is read.
std::unique_ptr<PartSource> make_planted_part(const PlantedSpec& spec, int part);

}  // namespace strata::graph
