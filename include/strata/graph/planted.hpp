// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "strata/graph/synthetic.hpp"

namespace strata::graph {

/// A synthetic graph of planted communities that can be given instead of a partition directory. Parts are not
/// read but generated when they are opened, so each machine makes only its own parts.
///
/// The communities are the parts, which are ranges of equal length. An edge comes from its own part with
/// probability `within`, else from any other part. Degrees and neighbors are skewed as for lognormal graphs.
/// Original ids are global ids.
struct PlantedSpec {
  SyntheticSpec shape;
  int parts = 1;
  double within = 0.9;
};

/// Reads "parts=4,within=0.9,KEY=VALUE,..."; the other keys and presets are those of parse_synthetic().
/// Throws InputError for unknown keys and values out of range.
PlantedSpec parse_planted(std::string_view text);

std::string digest_of(const PlantedSpec& spec);  ///< as for a SyntheticSpec

/// The origin of parts: a partition directory, or formulas.
using PartsOrigin = std::variant<std::filesystem::path, PlantedSpec>;

std::string name_of(const PartsOrigin& parts);                 ///< "parts", or "planted"; for messages
std::string name_of_part(const PartsOrigin& parts, int part);  ///< "parts/part-00001.h5", or "planted part 1"

}  // namespace strata::graph
