// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/nn/weights.hpp"
#include "strata/train/config.hpp"

namespace strata::train {

/// Columns of a model's input and output.
struct ModelShape {
  std::int64_t in_cols = 0, out_cols = 0;
};

/// What a model file says besides its tensors; read by TrainedWeights.
std::map<std::string, std::string> model_facts(const TrainConfig& config, const ModelShape& shape, int epoch);

/// The weights of a run's best epoch, on every rank.
class TrainedWeights {
 public:
  /// Reads them from a run's folder, or from a model file, on the first rank for all. Collective; throws
  /// InputError on all ranks if there is no model, or it is damaged.
  static TrainedWeights read(const std::string& run, const comm::Communicator& communicator);

  /// Copies the weights into a model. Throws InputError if they are of another kind of model, or of another
  /// width.
  void load_into(torch::nn::Module& model, const std::string& name) const;
  /// 0 where the file does not say it.
  ModelShape shape() const;

 private:
  std::string path_;
  nn::TensorFile file_;
};

}  // namespace strata::train
