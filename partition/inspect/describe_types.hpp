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

/// The types and relations that a manifest knows, as a summary of nothing else, and what it keeps of one.
GraphSummary types_of(const graph::PartitionRecord& record);
graph::TypeFacts facts_of(const GraphSummary& summary);

}  // namespace strata::partition
