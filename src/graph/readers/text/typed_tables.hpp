// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <vector>

#include "readers/assemble.hpp"

namespace strata::graph {

/// Reads a folder with nodes/TYPE.csv and edges/SOURCE__NAME__DESTINATION.csv; read_graph() has the contract.
Graph read_typed_tables(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);

/// The tables in such a folder, .csv, .tsv or .txt, in the order of their names.
std::vector<std::filesystem::path> typed_tables(const std::filesystem::path& folder);

}  // namespace strata::graph
