// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <vector>

#include "strata/graph/read_graph.hpp"

namespace strata::graph {

/// The files of a dataset that its format names and that exist, also where links lead there: metadata and the
/// files that it refers to, or files by their usual names. Other files in the dataset's folder are not
/// among them. What cannot be looked at is left out.
std::vector<std::filesystem::path> dataset_files(const DatasetSource& source);

/// The manifest and the part files of a partition directory.
std::vector<std::filesystem::path> partition_files(const std::filesystem::path& directory);

}  // namespace strata::graph
