// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "evaluation/evaluators.hpp"
#include "report/exchange_totals.hpp"
#include "report/report.hpp"
#include "report/traffic.hpp"
#include "run_context.hpp"
#include "step/gradient_exchange.hpp"
#include "step/learner.hpp"
#include "strata/batches/links.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/comm/reducer.hpp"
#include "strata/nn/model.hpp"
#include "strata/store/machine_graph.hpp"
#include "task/link_loss.hpp"
#include "task/missing_targets.hpp"
#include "type_choices.hpp"

namespace strata::train {

/// The pieces of a run, made in this order and closed in reverse. An owner; its pieces refer to each other.
struct Session {
  /// Collective; loads the graph. `context` outlives the session.
  Session(RunContext& context, const ModelFactory& make_model);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  void close();  ///< collective; the context stays open

  RunFacts facts() const;                  ///< for the run's first lines and its first record
  ExchangeTotals exchange_totals() const;  ///< collective; between epochs
  RankTraffic traffic() const;             ///< of this rank so far; between epochs

  RunContext& context;
  store::MachineGraph graph;
  TargetType target;
  batches::SeedTargets targets;
  LinkTable link_table;                       ///< of a task of links
  std::unique_ptr<batches::LinkSeeds> links;  ///< null: seeds are nodes
  Learner learner;
  std::unique_ptr<PairLoss> pair_loss;  ///< of a task of links
  at::Tensor table;  ///< input rows that the model reads in place; undefined: they are gathered
  std::unique_ptr<batches::Trace> trace;  ///< null without --trace
  batches::Pipeline pipeline;
  bool graphs;  ///< steps of padded batches are replayed
  Evaluators evaluators;
  MissingTargets missing;  ///< seeds and scored nodes without target
  std::unique_ptr<comm::AllReducer> reducer;
  std::unique_ptr<GradientExchange> exchange;  ///< null without learned rows
};

}  // namespace strata::train
