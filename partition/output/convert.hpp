// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>

#include "strata/graph/graph.hpp"
#include "strata/graph/stored_graph.hpp"
#include "strata/partition/build.hpp"

namespace strata::partition {

/// Throws InputError if `output` cannot become such a folder: it exists and is not empty, or its parent
/// cannot be written.
void check_npy_target(const std::filesystem::path& output);

/// Writes a graph as a folder of NumPy arrays that `npy:` reads: edge_index (every edge in each direction
/// that it has, in the order of destinations and sources), edge_weight, x, y, and train, valid, test as ids.
///
/// A graph of several types becomes folders nodes/TYPE and edges/SOURCE__NAME__DESTINATION, whose edges are in
/// the order of their ids. Features stay f16 or f32; bf16 becomes f32. The folder appears as a whole or not at all, and must not
/// exist. node_names become `names.txt`. Throws InputError, IoError or Stopped.
void write_npy_folder(const graph::Graph& graph, const std::filesystem::path& output, StopFlag& stop);
/// The same for a graph whose lists lie elsewhere than in `structure`, which has only the number of nodes.
/// before_publishing, if given, is called after everything is written and before it appears: an exception
/// from it ends the conversion.
void write_npy_folder(const graph::Graph& graph, const graph::ListsView& lists,
                      const std::filesystem::path& output, StopFlag& stop,
                      const std::function<void()>& before_publishing = {});

}  // namespace strata::partition
