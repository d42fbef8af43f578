// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/train/config.hpp"
#include "strata/train/task.hpp"
#include "strata/train/trainer.hpp"
#include "strata/util/text.hpp"

namespace strata::train {

enum class NodeSplit : std::uint8_t { all, train, valid, test };

/// The use of a trained model.
struct InferenceRequest {
  std::string run;     ///< folder of the run, or a model file
  std::string logits;  ///< .npy or .csv file for logits; empty: scores only
  std::string nodes;   ///< .npy file of original ids, whose logits are wanted in this order; empty: `split`
  NodeSplit split = NodeSplit::all;
};

/// The part of a run's configuration that makes its model; all else has its default.
TrainConfig inference_config(const TrainConfig& run);

struct InferenceResult {
  Scores valid, test;
  bool stopped = false;  ///< by a signal: there is no result
};

/// Loads config.graph, which may be another graph than the run's with the same feature columns and classes,
/// and applies the run's model to it with all neighbors of every node. The config says which model it is
/// (that of the run) and where it is computed; `make_model` makes it, as train()'s does. Logits of a split
/// are in order of original ids; in a .csv file each row begins with its id. Collective; throws as train()
/// does.
InferenceResult infer(const TrainConfig& config, const InferenceRequest& request, const comm::World& world,
                      StopListener& stop, const ModelFactory& make_model = nn::make_model);

}  // namespace strata::train

namespace strata {

template <>
inline constexpr auto enum_names<train::NodeSplit> =
    std::to_array<EnumName<train::NodeSplit>>({{train::NodeSplit::all, "all"},
                                               {train::NodeSplit::train, "train"},
                                               {train::NodeSplit::valid, "valid"},
                                               {train::NodeSplit::test, "test"}});

}  // namespace strata
