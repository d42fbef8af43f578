// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "commands/arguments.hpp"

/// Checks before anything is read, or as soon as the graph is there. All throw InputError.
namespace strata::partition {

/// Refuses a report that is no file, or would damage the input or the output.
void check_report(const Arguments& args);

/// Refuses an output or target within the partition directory that is read.
void check_outside_input(const std::filesystem::path& output, const InputOptions& input);

/// Refuses --seed where nothing is drawn.
void check_seed(const Arguments& args, const options::GivenOptions& given);

/// Refuses --balance weights where the input is known to have none before it is read.
void check_weights_to_balance(const Arguments& args);

/// Refuses a type for features where they are not stored.
void check_feature_type(const InputOptions& input, const char* why);

/// Refuses a graph without nodes, which has no parts.
void check_has_nodes(const graph::Graph& graph, const InputOptions& input);

/// Refuses options for features of a graph that has none.
void check_has_features(const graph::Graph& graph, const InputOptions& input);

}  // namespace strata::partition
