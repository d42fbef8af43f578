// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/progress_state.hpp"
#include "step/flat_parameters.hpp"
#include "step/optimizer.hpp"
#include "strata/graph/part_file.hpp"

namespace strata::train {

/// What a checkpoint is made of; references for the length of a call.
struct CheckpointParts {
  const FlatParameters* parameters;
  Optimizer* optimizer;
  ProgressState* progress;
  std::string signature;           ///< with_graph()
  const torch::nn::Module* model;  ///< whose buffers are kept, too
};

/// A resume_signature() and what tells a graph from others, whatever its partition; `digest` is its
/// graph::read_graph_digest().
std::string with_graph(const std::string& signature, const graph::Manifest& manifest,
                       const std::string& digest);

/// The contents of a safetensors file. Every random choice is keyed by (seed, epoch, step), so the random
/// state is the epoch and step themselves. The state is the same on all ranks, whose number it does not
/// depend on.
std::string format_checkpoint(const CheckpointParts& parts);

/// Fills the parts from a file's contents; `path` names it in errors. Throws InputError naming the file and
/// the option that differs if the run does not fit.
void restore_checkpoint(std::string_view contents, const std::filesystem::path& path,
                        const CheckpointParts& parts);

}  // namespace strata::train
