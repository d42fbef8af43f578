// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/evaluator.hpp"
#include "report/config_record.hpp"
#include "report/exchange_totals.hpp"
#include "strata/batches/pipeline.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/comm/machine.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "strata/train/config.hpp"
#include "strata/train/trainer.hpp"
#include "task/missing_targets.hpp"
#include "tuning/sm_split.hpp"

/// The output of a run: texts for people, and records for metrics.jsonl. Nothing here asks
/// another rank or the system.
namespace strata::train {

/// The facts about a run that its first lines and records show.
struct RunFacts {
  TrainConfig config;
  RunOrigin origin;
  comm::Topology topology;
  graph::Manifest manifest;  ///< of the graph
  std::vector<plan::PlanRow> plan;
  std::vector<plan::HottestRows> hottest_rows;  ///< MachineGraph::hottest_rows()
  Count presampled_batches = 0;                 ///< that the plan was made from
  MissingTargets missing;
  Count num_parameters = 0;
  Count global_batch = 0;  ///< seeds per step, over all ranks
  Count steps_per_epoch = 0;
  batches::BatchSizes batch_sizes;
  int batches_in_flight = 0;                       ///< that are sampled, gathered or trained at the same time
  comm::LinkFacts link;                            ///< between machines over MPI; all zero on one
  comm::LinkFacts gpu_link;                        ///< from GPU to GPU; all zero if nothing goes that way
  int cores = 0;                                   ///< per rank
  std::string reducer;                             ///< what sums gradients
  std::optional<batches::Transport> row_exchange;  ///< none on one machine
};

/// One finished epoch, or its part since a resume.
struct EpochReport {
  int epoch = 0;  ///< 1-based
  Count steps = 0, seeds = 0;
  Count skipped_updates = 0;   ///< left out for a loss or gradient that was not finite
  Count unpadded_batches = 0;  ///< of this rank, larger than the padded shape: they took the slower way
  Count input_rows = 0;        ///< of all ranks' batches, unless they were read in place
  double loss = 0, train_accuracy = 0;
  double seconds = 0;           ///< wall time, waits included
  batches::LoaderTimes stages;  ///< `wait`: what the training stage waited for batches
  double sum_seconds = 0;  ///< from the end of this rank's gradients to the end of their sum over all ranks
  tensor::ByStratum<std::int64_t> gathered_bytes;  ///< of this rank, from each stratum
  std::int64_t peak_host_bytes = 0;                ///< of this process so far

  double seeds_per_second() const { return seconds > 0 ? static_cast<double>(seeds) / seconds : 0; }
  double train_seconds() const { return seconds - stages.wait; }
  double compute_seconds() const { return std::max(0.0, train_seconds() - sum_seconds); }
};

/// A finished or stopped run, with the memory that this process took at most.
struct FinalReport {
  TrainResult result;
  std::int64_t peak_host_bytes = 0;
  std::int64_t peak_device_bytes = 0;  ///< libtorch's share of the GPU; 0 on the cpu
};

/// Graph, model, ranks, devices and memory plan.
std::string banner(const RunFacts& facts);

/// Explains a fanout of 0, for people who mean all neighbors by it; empty if there is none.
std::string fanouts_note(const std::vector<int>& fanouts);

nlohmann::json run_record(const RunFacts& facts);
nlohmann::json first_step_record(double seconds, bool early);
nlohmann::json arrival_record(const store::FeatureArrival::Report& report);
nlohmann::json step_record(int epoch, Count step_in_epoch, double loss, double train_accuracy);
nlohmann::json epoch_record(const EpochReport& epoch);
nlohmann::json sm_split_record(const SmSplitResult& result);
nlohmann::json evaluation_record(int epoch, const Evaluation& evaluation);
/// `details`: ScoreBoard::details() of the test nodes.
nlohmann::json details_record(int epoch, const std::string& details);
nlohmann::json exchange_record(const ExchangeTotals& totals);
nlohmann::json final_record(const FinalReport& report);

/// The state of an epoch that is not over.
struct BarProgress {
  double loss_sum = 0, seeds = 0;      ///< of its steps so far
  const Scores* best_valid = nullptr;  ///< of the best epoch; null before the first evaluation
  std::string metric = {};             ///< Task::metric()
};
/// "loss 0.5123  best 0.7500", and nothing before the first step.
std::string bar_words(const BarProgress& progress);

/// The content of an epoch's line.
struct EpochSummary {
  int epoch = 0, epochs = 0;               ///< 1-based, and of how many
  const EpochReport* trained = nullptr;    ///< null: trained in an earlier process
  const Evaluation* evaluation = nullptr;  ///< null: not evaluated
  std::string metric = {};                 ///< Task::metric()
  bool is_best = false;
};
/// "epoch  2/10  loss 0.5123  valid 0.7500  test 0.5000    4.0 s  49.0k seeds/s *", in 80 columns; * marks
/// the best epoch so far.
std::string epoch_line(const EpochSummary& summary);
/// Where the time of an epoch went.
std::string stages_line(const EpochReport& epoch);
std::string exchange_table(const ExchangeTotals& totals);
std::string final_table(const FinalReport& report);
/// The reason why no epoch follows if a finished run is resumed.
std::string nothing_left(const TrainConfig& config, Count epochs_done);
/// Where the model is and what to do with it, or how to continue a stopped run.
std::string closing_text(const TrainConfig& config, const TrainResult& result);

}  // namespace strata::train
