// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "run_context.hpp"
#include "step/flat_parameters.hpp"
#include "step/learned_rows.hpp"
#include "step/trained_weights.hpp"
#include "strata/nn/model.hpp"
#include "strata/nn/optimizer.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/train/trainer.hpp"

namespace strata::train {

/// Makes the model that the config names, on this rank's device. Sets libtorch up for this thread, too: its
/// cores, its precision, and a stream of its own.
std::shared_ptr<nn::BlockModel> make_model(const RunContext& context, const ModelShape& shape,
                                           const ModelFactory& make_model);

/// The parts of training: the model, its parameters, the loss and the optimizer. An owner.
struct Learner {
  /// Calls make_model(). `num_seeds`: per epoch. Collective.
  Learner(const RunContext& context, const store::MachineGraph& graph, Count num_seeds,
          const ModelFactory& make_model);
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  std::vector<nn::NamedTensor> weights() const;  ///< as a model file has them, by reference

  std::shared_ptr<nn::BlockModel> model;
  FlatParameters parameters;
  std::unique_ptr<Loss> loss;  ///< as the task has it
  std::unique_ptr<nn::Optimizer> optimizer;
  std::unique_ptr<LearnedRows> rows;  ///< null: none
};

/// The input rows of all nodes, if the model reads them in place: on a GPU that holds all of them as f32, in a
/// run on one machine. Else undefined.
at::Tensor table_in_place(const nn::BlockModel& model, const store::MachineGraph& graph,
                          const RunContext& context);

/// The options of sampling with what the model's layers need of blocks in training. `table` is that of
/// table_in_place().
sampling::SamplerOptions block_options(const nn::BlockModel& model, const RunContext& context,
                                       const graph::GraphTypes& types, const at::Tensor& table);

}  // namespace strata::train
