// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/partition/build.hpp"

namespace strata::partition {

/// What a build made, as one page of HTML without scripts that needs no other file and no network: sizes and
/// cut, the balance of every constraint, edges between parts, halo nodes, degrees, and phases with time and
/// memory, drawn so that a bad partition is seen at a glance. Well-formed XML, too. `report` should be
/// detailed (BuildOptions::detailed), or the drawings of edges and degrees are missing.
std::string report_html(const BuildReport& report);

}  // namespace strata::partition
