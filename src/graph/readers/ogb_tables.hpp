// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "strata/graph/graph.hpp"
#include "strata/util/threads.hpp"

namespace strata::graph {

/// Whether the folder of a set describes several types of nodes, in tables or arrays.
bool has_ogb_types(const std::filesystem::path& place);

/// Tables in the folders of OGB. All throw InputError with the path.

/// "NAME.csv.gz", or the same inflated.
std::optional<std::filesystem::path> find_ogb_table(const std::filesystem::path& folder,
                                                    const std::string& name);
std::filesystem::path require_ogb_table(const std::filesystem::path& folder, const std::string& name);

/// The number in a list with one entry per graph; datasets of many graphs are refused.
Count read_ogb_count(const std::filesystem::path& folder, const std::string& name, ThreadPool& pool);

/// DIR/split/NAME; without a name the only one that there is, or none.
std::optional<std::filesystem::path> ogb_split_folder(const std::filesystem::path& place,
                                                      const std::string& name);

/// The ids in the tables train, valid and test.
Splits read_ogb_splits(const std::filesystem::path& folder, ThreadPool& pool);

}  // namespace strata::graph
