// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

#include "strata/graph/graph.hpp"
#include "strata/partition/stop.hpp"

namespace strata::partition {

/// Writes a graph as a folder of NumPy arrays that `npy:` reads: edge_index (every edge in each direction
/// that it has, in the order of destinations and sources), edge_weight, x, y, and train, valid, test as ids.
///
/// Features stay f16 or f32; bf16 becomes f32. The folder appears as a whole or not at all, and must not
/// exist. node_names become `names.txt`. Throws InputError, IoError or Stopped.
void write_npy_folder(const graph::Graph& graph, const std::filesystem::path& output, StopFlag& stop);

}  // namespace strata::partition
