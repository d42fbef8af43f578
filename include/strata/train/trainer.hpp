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

using ModelFactory = std::function<std::shared_ptr<nn::BlockModel>(const nn::ModelOptions&)>;

/// The whole run: load, train, evaluate, checkpoint, report. Collective over `world`; the same result on
/// every rank.
///
/// Files in config.output: model.safetensors (the best by validation), checkpoint.safetensors and the one
/// before it, metrics.jsonl, train.log; strata.lock keeps other runs out meanwhile. Throws what the libraries
/// throw; then the caller must end all ranks (World::abort), for the others may be waiting. Calls
/// stop.loaded() before the first step; a stop request is agreed on by all ranks in the next step, and a
/// checkpoint is written.
///
/// The config is validated first (InputError), on all ranks together; ranks with different options are
/// refused.
///
/// `make_model` makes the model of config.model, or one of the caller's own, which config.own_model names.
/// Such is any torch::nn::Module that derives from nn::BlockModel: every rank must make it with the same
/// weights (by options.seed), with f32 parameters. Its buffers may differ between ranks while they train;
/// before each evaluation and checkpoint, floating-point ones become the mean over the ranks and others the
/// first rank's.
TrainResult train(const TrainConfig& config, const comm::World& world, StopListener& stop,
                  const ModelFactory& make_model = nn::make_model);

}  // namespace strata::train
