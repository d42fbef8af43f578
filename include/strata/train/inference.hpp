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
  /// Of a run that learns links or edges: a .npy file [pairs, 2] of sources and destinations, whose scores are
  /// wanted, or [pairs, 3] with the number of the relation among the run's. Ids count within types.
  std::string pairs = {};
  /// Of a run that learns links: so many of the best destinations are wanted for each of `nodes`, or of all nodes that
  /// may be sources; 0: none.
  Count top = 0;
  std::string relation = {};  ///< of `top`; may be empty if the run has one

  bool of_pairs() const { return !pairs.empty() || top > 0; }
};

/// The part of a run's configuration that makes its model; all else has its default.
TrainConfig inference_config(const TrainConfig& run);

struct InferenceResult {
  bool scored = true;  ///< there are scores
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
