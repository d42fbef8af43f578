// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/train/config.hpp"
#include "strata/util/ranges.hpp"

/// What a run's options mean for the types of its graph.
namespace strata::train {

/// Refuses a model that does not take the types, and options that do not fit them. Throws InputError.
void check_types(const TrainConfig& config, const graph::GraphTypes& types);

/// The relation with this name: "cites", or "paper__cites__paper" if several relations are called cites.
/// Throws InputError with the relations that there are.
std::size_t relation_named(const std::string& name, const graph::GraphTypes& types);

/// Sets the fanouts of all hops and relations.
void choose_fanouts(const TrainConfig& config, const graph::GraphTypes& types,
                    sampling::SamplerOptions& options);

/// The most neighbors per hop that a node gets over all relations into its type; -1: all of them.
std::vector<int> most_neighbors(const TrainConfig& config, const graph::GraphTypes& types);

/// The type of the nodes that are trained on, scored and predicted.
struct TargetType {
  std::string name;
  Range original_ids;
};

/// Throws InputError with the types that there are.
TargetType type_named(const std::string& name, const graph::GraphTypes& types, Count num_nodes);

/// The type of this name; without a name, that of the training nodes. Throws InputError if these have several
/// types, or if there are none and several types.
TargetType find_target(const std::string& name, const store::MachineGraph& graph);

/// A warning about types of nodes without features; empty if there are none.
std::string missing_features(const graph::GraphTypes& types);

}  // namespace strata::train
