// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "strata/comm/communicator.hpp"
#include "strata/nn/model.hpp"
#include "strata/train/config.hpp"
#include "strata/train/result.hpp"
#include "strata/train/stop_listener.hpp"

namespace strata::train {

class Task;

using ModelFactory = std::function<std::shared_ptr<nn::BlockModel>(const nn::ModelOptions&)>;

/// The whole run: load, train, evaluate, checkpoint, report. Collective over `world`; the same result on
/// every rank.
///
/// It writes into config.output: model.safetensors (the best by validation), checkpoint.safetensors and the
/// one before it, metrics.jsonl and train.log. Meanwhile strata.lock keeps other runs out. It throws what the
/// libraries throw; the caller must then end all ranks (World::abort), because others may be waiting. It
/// calls stop.loaded() before the first step. After a stop request all ranks agree to stop in the next step,
/// and a checkpoint is written.
///
/// The config is validated first, on all ranks together; InputError also if ranks have different options.
///
/// `make_model` makes the model that config.model names, or a model of the caller's own, which
/// config.own_model names. The latter derives from nn::BlockModel and has f32 parameters; every rank must
/// make it with the same weights (by options.seed). Its buffers may differ between ranks during training.
/// Before each evaluation and checkpoint, floating-point buffers become the mean over the ranks, and others
/// become those of the first rank. `task` is what is learned; null: make_node_classes().
TrainResult train(const TrainConfig& config, const comm::World& world, StopListener& stop,
                  const ModelFactory& make_model = nn::make_model, const Task* task = nullptr);

}  // namespace strata::train
