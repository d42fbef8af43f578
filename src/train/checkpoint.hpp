#pragma once
#include <filesystem>
#include <string>

#include "progress_state.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/train/flat_parameters.hpp"
#include "strata/train/optimizer.hpp"

namespace strata::train {

/// What a checkpoint is made of; references for the length of a call.
struct CheckpointParts {
  const FlatParameters* parameters;
  Optimizer* optimizer;
  ProgressState* progress;
  std::string signature;           ///< with_graph()
  const torch::nn::Module* model;  ///< whose buffers are kept, too
};

/// A resume_signature() and what tells a graph from others, whatever its partition.
std::string with_graph(const std::string& signature, const graph::Manifest& manifest);

/// Writes a safetensors file atomically. Every random choice is keyed by (seed, epoch, step), so the random
/// state is the epoch and step themselves. One rank calls it: the state is the same on all.
void save_checkpoint(const std::filesystem::path& path, const CheckpointParts& parts);

/// Fills the parts from the file. Throws InputError naming the file and the option that differs if the run
/// does not fit.
void load_checkpoint(const std::filesystem::path& path, const CheckpointParts& parts);

}  // namespace strata::train
