// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "run_context.hpp"
#include "strata/store/machine_graph.hpp"

namespace strata::train {

/// What a graph is loaded for. Only training needs training nodes and labels.
enum class GraphUse { training, inference };

/// Loads or generates the graph of config.graph and places it for the run's batches. Its splits have only nodes
/// of the type `target`, if there is one. Refuses a graph that cannot be trained on before anything large is
/// read. Collective; throws as store::MachineGraph, and InputError.
store::MachineGraph load_graph(RunContext& context, GraphUse use, const std::string& target);

/// What tells the graph from others; see graph::read_graph_digest().
std::string graph_digest(const TrainConfig& config);

/// The program that made the parts; empty for a generated graph.
std::string build_program(const TrainConfig& config);

}  // namespace strata::train
