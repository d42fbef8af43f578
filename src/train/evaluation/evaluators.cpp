// SPDX-License-Identifier: Apache-2.0
#include "evaluation/evaluators.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "strata/util/error.hpp"
#include "strata/util/log.hpp"

namespace strata::train {

Evaluators::Evaluators(RunContext& context, const store::MachineGraph& graph, const ScoredNodes& nodes,
                       const nn::BlockModel& model, const LearnedRows* learned)
    : context_(context), graph_(graph), nodes_(nodes), model_(model), learned_(learned) {
  const TrainConfig& config = context.config;
  const bool by_weight = config.sampling_method() == sampling::Method::weighted;
  if (by_weight && config.eval_fanouts.empty() && !model.traits().takes_edge_weights) {
    throw InputError(
        "exact evaluation cannot weigh neighbors, because this model's layers count all alike",
        "Give --eval-fanouts, or, for a model of your own, set ModelTraits::takes_edge_weights.");
  }
  exact_ = std::make_unique<LayerwiseEvaluator>(evaluation_context());
  if (context.task.of_links()) {
    links_ = std::make_unique<LinkEvaluator>(evaluation_context(), config, *exact_);
    return;
  }
  if (config.eval_fanouts.empty()) return;
  sampling::SamplerOptions choice = evaluation_context().sampler;
  choice.fanouts = config.eval_fanouts;
  choice.relation_fanouts.clear();
  make_sampled(choice);
}

EvaluationContext Evaluators::evaluation_context() {
  return {.ranks = context_.ranks(),
          .graph = &graph_,
          .task = &context_.task,
          .targets = nodes_.targets,
          .learned = learned_,
          .target_ids = nodes_.of.original_ids,
          .pool = &context_.sample_pool,
          .seed = context_.config.seed,
          .sampler = context_.neighbor_choice(graph_.manifest().types),
          .alive = [this] { context_.alive("evaluating"); },
          .stop_requested = [this] { return context_.stop.requested(); }};
}

void Evaluators::make_sampled(const sampling::SamplerOptions& choice) {
  EvaluationContext context = evaluation_context();
  context.sampler = choice;
  sampled_ = make_sampled_evaluator(context, context_.config.batch_size);
}

Evaluator& Evaluators::chosen() {
  if (kind_ == EvaluationKind::undecided) decide();
  if (links_) return *links_;
  if (sampled_) return *sampled_;
  return *exact_;
}

void Evaluators::decide() {
  const bool fits = !sampled_ && exact_->fits(model_, links_ ? LayerwiseEvaluator::Nodes::predicted
                                                             : LayerwiseEvaluator::Nodes::scored);
  if (links_ && !fits)
    throw OutOfMemory("the outputs of all nodes, by which links are scored, do not fit in memory",
                      "Use more machines, or a smaller --hidden.");
  kind_ = fits ? EvaluationKind::exact : EvaluationKind::sampled;
  if (sampled_ || fits) return;
  make_sampled(evaluation_context().sampler);
  if (!context_.first_rank()) return;
  spdlog::warn(
      "the hidden rows of the nodes that the scores need do not fit in memory: evaluation samples {} "
      "neighbors per hop instead. --eval-fanouts chooses them; more machines or a smaller --hidden make it "
      "exact.",
      fmt::join(context_.config.fanouts, ","));
}

void Evaluators::keep(EvaluationKind kind) {
  if (kind == EvaluationKind::exact && !exact_->fits(model_)) {
    throw OutOfMemory(
        "the scores of this run so far are exact, but the hidden rows of the nodes that they need "
        "do not fit in memory here",
        "Resume with more machines or memory, or start anew without --resume.");
  }
  if (kind == EvaluationKind::sampled && !sampled_) make_sampled(evaluation_context().sampler);
  kind_ = kind;
}

void Evaluators::close() {
  if (links_) links_->close();
  if (sampled_) sampled_->close();
  exact_->close();
}

}  // namespace strata::train
