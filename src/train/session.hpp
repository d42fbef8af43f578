// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "checkpoint/progress_state.hpp"
#include "loading/batch_loader.hpp"
#include "loading/seed_schedule.hpp"
#include "report/exchange_totals.hpp"
#include "step/flat_parameters.hpp"
#include "step/loss.hpp"
#include "step/optimizer.hpp"
#include "step/unlabelled.hpp"
#include "strata/comm/machine.hpp"
#include "strata/comm/reducer.hpp"
#include "strata/comm/watchdog.hpp"
#include "strata/feature/fetcher.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/train/config.hpp"
#include "strata/train/evaluator.hpp"
#include "strata/train/stop_listener.hpp"
#include "strata/train/trainer.hpp"
#include "strata/util/thread_pool.hpp"

namespace strata::train {

/// Everything that lives as long as a run: made in order, closed in reverse. An owner.
///
/// Members refer to each other, so a session never moves.
class Session {
 public:
  Session(const TrainConfig& config, const comm::World& world, StopListener& stop,
          const ModelFactory& make_model);  ///< collective; loads the graph
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  void close();  ///< collective

  /// The exact one, unless sampled evaluation was asked for or memory does not suffice. Collective.
  Evaluator& evaluator();
  /// What evaluator() is, once it was called.
  EvaluationKind evaluation_kind() const { return evaluation_kind_; }
  /// Makes it that of the run that is resumed. Collective; throws OutOfMemory on all ranks where that one was
  /// exact and has no room here.
  void keep_evaluation(EvaluationKind kind);

  void alive(const char* what);  ///< tells the watchdog that something moved
  bool first_rank() const { return world.rank() == 0; }
  std::string graph_digest() const;        ///< see graph::read_graph_digest()
  ExchangeTotals exchange_totals() const;  ///< collective; between epochs
  /// Feature rows that this rank's loader read from each stratum since the last call; between epochs.
  std::array<std::int64_t, tensor::kNumStrata> take_gathered_bytes();

  const TrainConfig& config;
  const comm::World& world;
  StopListener& stop;
  comm::Topology topology;
  comm::Machine machine;
  Device device;
  comm::Watchdog watchdog;
  int cores;  ///< for this rank
  ThreadPool sample_pool, gather_pool;

  const Count global_batch;  ///< seeds a step over all ranks
  store::MachineGraph graph;
  std::shared_ptr<nn::BlockModel> model;
  std::unique_ptr<FlatParameters> parameters;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Loss> loss;
  std::unique_ptr<comm::AllReducer> reducer;
  std::unique_ptr<comm::DeviceExchange> row_exchange;  ///< null where feature rows go over MPI
  std::unique_ptr<SeedSchedule> schedule;
  std::unique_ptr<Trace> trace;  ///< null without --trace
  std::unique_ptr<BatchLoader> loader;
  std::optional<nn::InputTable> table;  ///< input rows that the model reads in place
  bool graphs = false;                  ///< steps of padded batches are replayed
  /// Of a rank's batches on average, where shapes were measured to be padded: nodes at each distance from the
  /// seeds that have edges, and those edges.
  std::vector<double> batch_nodes, batch_edges;
  Unlabelled unlabelled;
  std::unique_ptr<LayerwiseEvaluator> exact_evaluator;
  std::unique_ptr<Evaluator> sampled_evaluator;  ///< null where evaluation is exact

 private:
  store::MachineGraph load_graph();
  void make_model(const ModelFactory& make);
  void make_loss();
  void make_optimizer();
  sampling::SamplerOptions sampler_options() const;  ///< how neighbors are chosen
  void make_loader();
  void make_row_exchange();
  void find_table();
  sampling::PaddedShape measure_padding();
  EvaluationContext evaluation_context();
  void decide_evaluation();
  void make_evaluators();
  Count seeds_per_rank() const;  ///< of a step
  store::Presampling presampling();
  void set_gpu_budget(Count num_nodes, Count feature_cols, store::LoadOptions& options) const;
  std::int64_t training_device_bytes(Count num_nodes) const;

  comm::Communicator sample_communicator_, gather_communicator_;
  std::unique_ptr<sampling::MiniBatchSampler> sampler_;
  std::unique_ptr<feature::RowFetcher> fetcher_;
  comm::LaunchOrder launch_order_;                     // of row exchange and reducer
  std::array<Count, tensor::kNumStrata> told_rows_{};  // of the fetcher
  EvaluationKind evaluation_kind_ = EvaluationKind::undecided;
};

}  // namespace strata::train
