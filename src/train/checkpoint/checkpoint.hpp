// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/progress_state.hpp"
#include "step/flat_parameters.hpp"
#include "step/learned_rows.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/nn/optimizer.hpp"

namespace strata::train {

/// The parts of a checkpoint. References that must be valid during a call.
struct CheckpointParts {
  const FlatParameters* parameters;
  nn::Optimizer* optimizer;
  ProgressState* progress;
  std::string signature;                 ///< with_graph()
  const torch::nn::Module* model;        ///< its buffers are saved, too
  const LearnedRows* learned = nullptr;  ///< null: none
};

/// A resume_signature() with what identifies the graph, however it is partitioned. `digest` is its
/// graph::read_graph_digest().
std::string with_graph(const std::string& signature, const graph::Manifest& manifest,
                       const std::string& digest);

/// The contents of a checkpoint as a safetensors file. Every random choice is keyed by (seed, epoch, step),
/// so epoch and step are the whole random state. The state is the same on all ranks and does not depend on
/// their number.
std::string format_checkpoint(const CheckpointParts& parts);

/// Fills the parts from a file's contents; `path` names it in errors. Throws InputError naming the file and
/// the option that differs if the checkpoint is of another run.
void restore_checkpoint(std::string_view contents, const std::filesystem::path& path,
                        const CheckpointParts& parts);

}  // namespace strata::train
