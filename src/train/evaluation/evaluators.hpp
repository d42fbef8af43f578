// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "checkpoint/progress_state.hpp"
#include "evaluation/evaluator.hpp"
#include "evaluation/link_evaluator.hpp"
#include "run_context.hpp"
#include "strata/nn/model.hpp"
#include "strata/store/machine_graph.hpp"
#include "type_choices.hpp"

namespace strata::train {

/// The nodes that a run scores and predicts.
struct ScoredNodes {
  batches::SeedTargets targets;  ///< as the task has them
  TargetType of;
};

/// The evaluator of a run: exact, or sampled where that was asked for or memory does not
/// suffice. Decided once, because the best epoch must not depend on the free memory of a moment. An owner;
/// its references outlive it.
class Evaluators {
 public:
  /// Collective. Throws InputError for a model that cannot be scored as the run samples.
  Evaluators(RunContext& context, const store::MachineGraph& graph, const ScoredNodes& nodes,
             const nn::BlockModel& model, const LearnedRows* learned);
  Evaluators(const Evaluators&) = delete;
  Evaluators& operator=(const Evaluators&) = delete;
  void close();  ///< collective

  Evaluator& chosen();  ///< decides at the first call. Collective
  /// The kind of chosen(), once it was called.
  EvaluationKind kind() const { return kind_; }
  /// Keeps the kind of the run that is resumed. Collective; throws OutOfMemory on all ranks where that one
  /// was exact and does not fit here.
  void keep(EvaluationKind kind);
  LayerwiseEvaluator& exact() { return *exact_; }
  LinkEvaluator& links() { return *links_; }  ///< REQUIRES: a task of links

 private:
  EvaluationContext evaluation_context();
  void decide();
  void make_sampled(const sampling::SamplerOptions& choice);

  RunContext& context_;
  const store::MachineGraph& graph_;
  const ScoredNodes nodes_;
  const nn::BlockModel& model_;
  const LearnedRows* const learned_;  // null: none
  std::unique_ptr<LayerwiseEvaluator> exact_;
  std::unique_ptr<Evaluator> sampled_;    // null where evaluation is exact
  std::unique_ptr<LinkEvaluator> links_;  // of a task of links
  EvaluationKind kind_ = EvaluationKind::undecided;
};

}  // namespace strata::train
