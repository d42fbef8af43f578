// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <string>

#include "strata/graph/npy.hpp"

namespace strata::graph {

/// Parses the bytes of one .npy file. The array points into them, or into a copy if they are not aligned for
/// its type.
NpyArray parse_npy(const std::string& origin, std::span<const std::byte> bytes,
                   std::shared_ptr<const void> keep_alive);

}  // namespace strata::graph
