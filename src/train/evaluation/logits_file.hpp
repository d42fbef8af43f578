// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::train {

/// Whether a file of logits is text, with an id in each row.
bool is_csv(const std::string& path);

/// The path for the logits of all nodes if `path` is to have something else in the end: a part of them, or
/// text. Else `path` itself.
std::string path_of_all_logits(const std::string& path, bool selects);

/// Makes `path`, .npy or .csv, of the logits of all nodes in the .npy file `all`, and removes that. `nodes`
/// are the rows wanted, in this order; nothing: all. Text names columns "class0", or `column` and its number.
/// One rank calls it. Throws IoError.
void finish_logits(const std::string& all, const std::string& path,
                   const std::optional<std::vector<NodeId>>& nodes, const char* column = "class");

/// The ids in a .npy file of integers, or the nodes of a mask, a .npy file of bool. Throws InputError naming `option`, the file and the position of an id
/// that is not below `num_nodes`.
std::vector<NodeId> read_node_ids(const char* option, const std::string& path, Count num_nodes);

}  // namespace strata::train
