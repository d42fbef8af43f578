// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/nn/weights.hpp"
#include "strata/train/config.hpp"

namespace strata::train {

class LearnedRows;

/// Columns of a model's input and output.
struct ModelShape {
  std::int64_t in_cols = 0, out_cols = 0;
  graph::GraphTypes types = {};  ///< of the graph; not in the model file
};

/// The facts that a model file has besides its tensors; read by TrainedWeights. `target` is the type of nodes
/// that the model is about; empty in a graph of one type.
std::map<std::string, std::string> model_facts(const TrainConfig& config, const ModelShape& shape,
                                               const std::string& target, int epoch);

/// The weights of a run's best epoch, on every rank.
class TrainedWeights {
 public:
  /// Reads them from a run's folder, or from a model file, on the first rank for all. Collective; throws
  /// InputError on all ranks if there is no model, it is damaged, or it is another kind of model than the
  /// config's.
  static TrainedWeights read(const std::string& run, const TrainConfig& config,
                             const comm::Communicator& communicator);

  /// Copies the weights into a model and the learned rows, if it has any. Throws InputError if they are of
  /// another width, or rows of other nodes.
  void load_into(torch::nn::Module& model, const LearnedRows* learned) const;
  /// The shape of the model; 0 where the file does not have it.
  ModelShape shape() const;
  const ModelFacts& facts() const { return file_.metadata; }
  std::string target() const;  ///< the type of nodes that the model is about; empty if the file has none

 private:
  void require_model_of(const TrainConfig& config) const;

  std::string path_;
  nn::TensorFile file_;
};

}  // namespace strata::train
