// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <string>

#include "strata/graph/npy.hpp"

namespace strata::graph {

/// Parses the bytes of one .npy file. The array points into them, or into a copy, which lies in a file of
/// `scratch` if there is one, if they are not aligned for its type.
NpyArray parse_npy(const std::string& origin, std::span<const std::byte> bytes,
                   std::shared_ptr<const void> keep_alive, ScratchStore* scratch = nullptr);

/// Type and shape of the .npy file that begins with these bytes, and where its elements begin. `data` is
/// null.
struct NpyHeader {
  NpyArray array;
  std::size_t bytes = 0;
};
NpyHeader parse_npy_header(const std::string& origin, std::span<const std::byte> bytes);

/// Throws InputError unless the elements take `found_bytes`.
void require_payload(const NpyArray& array, std::size_t found_bytes);

}  // namespace strata::graph
