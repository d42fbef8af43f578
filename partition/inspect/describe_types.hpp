// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "strata/partition/inspect.hpp"

namespace strata::partition {

/// Sets the types of nodes and the relations of a summary; nothing for a graph without types.
void describe_types(const graph::Graph& graph, const graph::ListsView& lists, GraphSummary& summary);

/// Tables of the types of nodes and of the relations; empty for a graph without types.
std::string types_text(const GraphSummary& summary);
nlohmann::ordered_json types_json(const GraphSummary& summary);

/// The same of what a manifest knows.
std::string types_text(const graph::Manifest& manifest);
nlohmann::ordered_json types_json(const graph::Manifest& manifest);

}  // namespace strata::partition
