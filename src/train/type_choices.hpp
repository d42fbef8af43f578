// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/train/config.hpp"
#include "strata/util/ranges.hpp"

/// What a run's options mean for the types of its graph.
namespace strata::train {

/// Refuses a model that does not take the types, and options that do not fit them; `feature_cols` are the graph's.
/// Throws InputError.
void check_types(const TrainConfig& config, const graph::GraphTypes& types, Count feature_cols);

/// The relation with this name: "cites", or "paper__cites__paper" if several relations are called cites.
/// Throws InputError with the option and the relations that there are.
std::size_t relation_named(const std::string& name, const graph::GraphTypes& types,
                           const char* option = "--relation-fanouts");

/// The relations whose edges are links, in the order of --relation; without it all but reverses, whose names are
/// those of others behind rev_. Throws InputError.
std::vector<std::size_t> link_relations(const TrainConfig& config, const graph::GraphTypes& types);

/// Sets the fanouts of all hops and relations.
void choose_fanouts(const TrainConfig& config, const graph::GraphTypes& types,
                    sampling::SamplerOptions& options);

/// The most neighbors per hop that a node gets over all relations into its type; -1: all of them.
std::vector<int> most_neighbors(const TrainConfig& config, const graph::GraphTypes& types);

/// A type of nodes whose input rows are learned.
struct LearnedType {
  std::string name;
  Range original_ids;
};

/// The types that have nodes but no features; of a graph without features, all that have nodes.
std::vector<LearnedType> types_without_features(const graph::GraphTypes& types, Count feature_cols,
                                                Count num_nodes);

/// What decides how wide a model's input is, and what its learned rows take.
struct InputShape {
  Count feature_cols = 0;  ///< of the graph
  Count learned_cols = 0, learned_rows = 0;
  RowOptimizer optimizer = RowOptimizer::adam;

  Count cols() const { return std::max(feature_cols, learned_cols); }  ///< narrower rows end with zeros
  std::int64_t learned_bytes() const;  ///< on each rank, with the optimizer's state
};
InputShape input_shape(const TrainConfig& config, const graph::GraphTypes& types, Count feature_cols,
                       Count num_nodes);

/// Columns of the rows that a model reads.
Count input_cols(const TrainConfig& config, const graph::Manifest& manifest);

/// Columns of the rows that a decoder reads.
Count output_cols_for_decoder(const TrainConfig& config, const graph::Manifest& manifest);

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
/// The nodes of a task of edges, which may be of any type.
TargetType all_types(const store::MachineGraph& graph);

/// A warning about types of nodes without features and without learned rows; empty if there are none.
std::string missing_features(const TrainConfig& config, const graph::Manifest& manifest);

}  // namespace strata::train
