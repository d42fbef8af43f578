// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "session.hpp"
#include "strata/train/trainer.hpp"
#include "tuning/sm_measurement.hpp"

/// What a run tells a person and writes into metrics.jsonl.
namespace strata::train {

/// One finished epoch, or its part since a resume.
struct EpochReport {
  int epoch = 0;  ///< 1-based
  Count steps = 0, seeds = 0;
  Count skipped_updates = 0;   ///< left out for a loss or gradient that was not finite
  Count unpadded_batches = 0;  ///< of this rank, larger than the padded shape: they took the slower way
  double loss = 0, train_accuracy = 0;
  double seconds = 0;      ///< wall time, waits included
  LoaderTimes stages;      ///< `wait`: what the training stage waited for batches
  double sum_seconds = 0;  ///< see StepRunner::take_sum_seconds
  std::array<std::int64_t, tensor::kNumStrata> gathered_bytes{};  ///< of this rank, from each stratum

  double seeds_per_second() const { return seconds > 0 ? static_cast<double>(seeds) / seconds : 0; }
  double train_seconds() const { return seconds - stages.wait; }
  double compute_seconds() const { return std::max(0.0, train_seconds() - sum_seconds); }
};

/// Machines, ranks, devices, graph, memory plan, job. Collective; text on the first rank alone.
std::string banner(const Session& session);

nlohmann::json run_record(const Session& session);
nlohmann::json step_record(int epoch, Count step_in_epoch, double loss, double train_accuracy);
nlohmann::json epoch_record(const EpochReport& epoch);
nlohmann::json sm_split_record(const SmMeasurement::Result& result);
nlohmann::json evaluation_record(int epoch, const Evaluation& evaluation);
nlohmann::json exchange_record(const ExchangeTotals& totals);
nlohmann::json final_record(const TrainResult& result, const Session& session);

std::string epoch_line(const EpochReport& epoch, int epochs);
std::string evaluation_line(const Evaluation& evaluation, Metric metric);
std::string exchange_table(const ExchangeTotals& totals);
std::string final_table(const TrainResult& result, const Session& session);

}  // namespace strata::train
