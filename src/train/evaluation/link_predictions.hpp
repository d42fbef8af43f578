// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "evaluation/link_evaluator.hpp"
#include "run_context.hpp"
#include "strata/train/inference.hpp"

namespace strata::train {

/// Throws InputError for a request of pairs, or of best neighbors, that the run's task has not.
void check_pairs(const TrainConfig& config, const InferenceRequest& request);

/// Writes what the request wants of pairs of nodes: a .npy file of their scores, or of best neighbors, ids
/// [nodes, top], -1 where there are no more, and their scores beside it. Scores exist for a tile of sources and
/// destinations at a time. Returns false on all ranks if it was stopped. Collective; throws InputError on all ranks.
bool predict_pairs(LinkEvaluator& links, nn::BlockModel& model, const Task& task, RunContext& context,
                   const store::MachineGraph& graph, const InferenceRequest& request);

}  // namespace strata::train
