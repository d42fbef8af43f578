// SPDX-License-Identifier: Apache-2.0
#include "strata/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "checkpoint/checkpoint_files.hpp"
#include "checkpoint/model_state.hpp"
#include "checkpoint/run_folder.hpp"
#include "checkpoint/same_config.hpp"
#include "load_graph.hpp"
#include "memory_error.hpp"
#include "report/config_record.hpp"
#include "report/memory_samples.hpp"
#include "report/metrics_log.hpp"
#include "report/ranks.hpp"
#include "report/report.hpp"
#include "run_context.hpp"
#include "session.hpp"
#include "step/not_finite.hpp"
#include "step/step_runner.hpp"
#include "strata/nn/model.hpp"
#include "strata/nn/weights.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"
#include "torch_device.hpp"
#include "tuning/device_mix.hpp"
#include "tuning/loader_threads.hpp"
#include "tuning/sm_measurement.hpp"

namespace strata::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One training run from its first step to its report.
class Run {
 public:
  Run(const TrainConfig& config, const comm::World& world, StopListener& stop, const ModelFactory& make_model,
      const Task& task, RunFolder& folder, const EpochCallback& on_epoch)
      : config_(config),
        stop_(stop),
        on_epoch_(on_epoch),
        folder_(folder),
        context_(config, world, stop, task),
        session_(context_, make_model),
        signature_(with_graph(resume_signature(config, world.size()), session_.graph.manifest(),
                              graph_digest(config))),
        steps_({.model = session_.learner.model.get(),
                .loss = session_.learner.loss.get(),
                .target_words = session_.targets.words_per_node(),
                .parameters = &session_.learner.parameters,
                .optimizer = session_.learner.optimizer.get(),
                .reducer = session_.reducer.get(),
                .device = context_.device,
                .feature_cols = session_.graph.manifest().feature_cols,
                .learned = session_.learner.rows.get(),
                .exchange = session_.exchange.get(),
                .table = session_.table,
                .pair_loss = session_.pair_loss.get(),
                .places = session_.links ? session_.links->places_per_link() : batches::PlacesPerLink{},
                .graphs = session_.graphs,
                .trace = session_.trace.get()}),
        loader_threads_({.pools = {&context_.sample_pool, &context_.gather_pool},
                         .cores = context_.cores,
                         .overlap = measures_loader_threads(config, context_.topology),
                         .communicator = &world.communicator(),
                         .logs = context_.first_rank()}),
        sms_({.requested = config.sm_split,
              .device = context_.device,
              .measures =
                  measures_sm_splits(config, context_.topology) && !session_.pipeline.launches_overlap(),
              .pipeline = &session_.pipeline,
              .steps = &steps_,
              .world = &world.communicator()}),
        checkpoints_(config.output),
        memory_samples_(context_.device) {
    progress_.best_valid = progress_.best_test = task.no_scores();
    if (config.resume)
      resume();
    else if (!config.init_from.empty())
      begin_with_trained_weights();
    begin_folder();
    if (context_.first_rank()) metrics_ = MetricsLog(path("metrics.jsonl").string(), config.resume);
    const RunFacts facts = session_.facts();
    metrics_.write(run_record(facts));
    if (context_.first_rank())
      write_file_atomically(path("config.toml"), config_record(config, facts.origin));
  }

  TrainResult execute() {
    if (context_.first_rank()) {
      print(banner(session_.facts()));
      const std::string unlabelled = describe(session_.missing, session_.graph.manifest());
      if (!unlabelled.empty()) spdlog::warn("{}", unlabelled);
      for (const std::string& note :
           {session_.learner.model->traits().reads_neighbors ? fanouts_note(config_.fanouts) : std::string(),
            missing_features(config_, session_.graph.manifest())})
        if (!note.empty()) spdlog::warn("{}", note);
      if (session_.learner.rows) spdlog::info("{}", session_.learner.rows->describe());
    }
    if (context_.first_rank() && config_.resume && finished() && !progress_.evaluation_due)
      spdlog::warn("{}", nothing_left(config_, progress_.epoch));
    training_start_ = Clock::now();
    bool stopped = progress_.evaluation_due && !end_epoch();
    while (!stopped && !finished()) {
      stopped = !train_epoch();
      if (stopped) break;
      ++progress_.epoch;
      progress_.step_in_epoch = 0;
      progress_.loss_sum = progress_.hits = progress_.seeds = 0;
      progress_.evaluation_due = wants_evaluation_after(progress_.epoch);
      if (wants_checkpoint()) write_checkpoint();
      if (progress_.evaluation_due) stopped = !end_epoch();
      const bool goes_on = stopped || callback_goes_on();
      stopped = stopped || ((stop_after_epoch_ || !goes_on) && !finished());
    }
    if (stopped) write_checkpoint();
    return finish(stopped);
  }

 private:
  static constexpr Count kTimedSteps = 16;  ///< steps that are timed to choose the batches in flight

  /// Logs how long the user waited for training to begin, once per run.
  void log_first_step() {
    if (std::exchange(begun_, true)) return;
    sms_.stream().synchronize();
    const double seconds = seconds_since(start_);
    metrics_.write(first_step_record(seconds, session_.graph.arrival() != nullptr));
    if (context_.first_rank() && config_.start_early)
      spdlog::info("first step done after {}", format_seconds(seconds));
  }

  /// Waits until all feature rows are in place; nothing may read all of them before. Collective.
  void wait_for_features() {
    if (!config_.start_early || std::exchange(features_are_there_, true)) return;
    store::FeatureArrival* const arrival = session_.graph.arrival();
    context_.watchdog.take_time("reading the rest of the features");
    context_.communicator().together([&] {
      if (arrival != nullptr) arrival->finish();
    });
    if (arrival == nullptr) return;  // of a machine where all rows were in place
    const store::FeatureArrival::Report report = arrival->report();
    metrics_.write(arrival_record(report));
    if (!context_.first_rank()) return;
    spdlog::info("all features are in place; batches read {} rows of {} themselves, for which they waited {}",
                 format_count(report.required_rows), format_count(report.late_rows),
                 format_seconds(report.required_seconds));
  }

  std::filesystem::path path(const std::string& name) const {
    return std::filesystem::path(config_.output) / name;
  }
  CheckpointParts checkpoint_parts() {
    return {&session_.learner.parameters, session_.learner.optimizer.get(), &progress_, signature_,
            session_.learner.model.get(), session_.learner.rows.get()};
  }

  /// Passes on the record of the epoch; returns the first rank's answer. Collective.
  bool callback_goes_on() {
    context_.watchdog.take_time("the program's work after an epoch");
    Count goes_on = !context_.first_rank() || !on_epoch_ || on_epoch_(epoch_record_.dump()) ? 1 : 0;
    context_.communicator().all_reduce(std::span(&goes_on, 1), comm::Communicator::Op::min);
    context_.alive("training");
    return goes_on != 0;
  }

  /// NaN for a task that counts no hits.
  double share_of_hits(double hits, double seeds) const {
    return context_.task.counts_hits() ? hits / seeds : std::nan("");
  }

  bool out_of_patience() const {
    return config_.patience > 0 && progress_.evaluations_without_gain >= config_.patience;
  }
  bool finished() const {
    return progress_.epoch >= static_cast<std::uint32_t>(config_.epochs) || out_of_patience();
  }
  bool wants_checkpoint() const {
    return config_.checkpoint_every > 0 &&
           progress_.epoch % static_cast<std::uint32_t>(config_.checkpoint_every) == 0;
  }
  bool wants_evaluation_after(std::uint32_t epoch) const {
    const bool last = epoch == static_cast<std::uint32_t>(config_.epochs);
    return last || (config_.eval_every > 0 && epoch % static_cast<std::uint32_t>(config_.eval_every) == 0);
  }

  /// Prints the line of an epoch when all its values are known.
  void print_epoch(const Evaluation* evaluation, bool is_best) {
    if (context_.first_rank()) {
      spdlog::info("{}",
                   epoch_line({.epoch = unprinted_ ? unprinted_->epoch : static_cast<int>(progress_.epoch),
                               .epochs = config_.epochs,
                               .trained = unprinted_ ? &*unprinted_ : nullptr,
                               .evaluation = evaluation,
                               .metric = context_.task.metric(),
                               .is_best = is_best}));
    }
    unprinted_.reset();
  }

  void resume() {
    checkpoints_.load(checkpoint_parts(), context_.communicator());
    if (config_.epochs < static_cast<int>(progress_.epoch)) {
      throw InputError(
          fmt::format("--epochs {}: the run has done {} already", config_.epochs, progress_.epoch),
          "Give more to go on, or leave --epochs out.");
    }
    if (context_.first_rank()) forget_records_after(progress_, path("metrics.jsonl").string());
    session_.evaluators.keep(progress_.evaluation_kind);
    // Stopped within the epoch that is the last by now: there are weights, but no scores.
    if (finished() && progress_.best_epoch == 0) progress_.evaluation_due = true;
  }

  void begin_with_trained_weights() {
    const TrainedWeights weights = TrainedWeights::read(config_.init_from, config_, context_.communicator());
    context_.communicator().together(
        [&] { weights.load_into(*session_.learner.model, session_.learner.rows.get()); });
  }

  /// Begins to write into the folder when every rank can train: a replaced run loses its files here.
  void begin_folder() {
    context_.communicator().barrier();
    context_.communicator().together([&] {
      if (context_.first_rank()) folder_.begin();
    });
  }

  /// Scores an epoch whose weights the checkpoint has already, so that nothing is lost if this fails.
  /// Returns false if the ranks agreed to stop, without scores.
  bool end_epoch() {
    if (!evaluate()) return false;
    progress_.evaluation_due = false;
    if (wants_checkpoint()) write_checkpoint();
    return true;
  }

  /// Returns false if the ranks agreed to stop within it; progress_ then has the place.
  bool train_epoch() {
    weights_agreed_ = false;
    const auto start = Clock::now();
    const Count first_step = progress_.step_in_epoch;
    const double seeds_before = progress_.seeds;
    const Count skipped_before = session_.learner.optimizer->counters().skipped;
    session_.pipeline.take_times();
    first_times_ = {};
    steps_.take_sum_seconds();
    session_.pipeline.take_gathered_bytes();
    session_.pipeline.take_input_rows();
    const RankTraffic traffic_before = session_.traffic();
    loader_threads_.begin_epoch();
    ProgressBar bar(fmt::format("epoch {}/{}", progress_.epoch + 1, config_.epochs),
                    session_.pipeline.num_seeds(), "seeds", context_.first_rank(),
                    {.words = [this] { return words_of_bar(); },
                     .seconds_left = [this](Count done) { return seconds_left(done); }});
    bool stopping = false;
    while (!stopping && progress_.step_in_epoch < session_.pipeline.steps_per_epoch())
      stopping = train_segment(bar);
    loader_threads_.end_epoch();
    stop_after_epoch_ = stopping && progress_.step_in_epoch == session_.pipeline.steps_per_epoch();
    if (stopping && !stop_after_epoch_) return false;

    EpochReport report{.epoch = static_cast<int>(progress_.epoch) + 1,
                       .steps = progress_.step_in_epoch - first_step,
                       .seeds = static_cast<Count>(progress_.seeds - seeds_before),
                       .skipped_updates = session_.learner.optimizer->counters().skipped - skipped_before,
                       .unpadded_batches = session_.pipeline.take_unpadded(),
                       .input_rows = take_input_rows(),
                       .loss = progress_.loss_sum / progress_.seeds,
                       .train_accuracy = share_of_hits(progress_.hits, progress_.seeds),
                       .seconds = seconds_since(start),
                       .stages = session_.pipeline.take_times() + std::exchange(first_times_, {}),
                       .sum_seconds = steps_.take_sum_seconds(),
                       .gathered_bytes = session_.pipeline.take_gathered_bytes(),
                       .peak_host_bytes = peak_resident_bytes()};
    if (context_.device.is_cuda()) report.stages.wait = std::max(0.0, report.seconds - report.stages.train);
    train_seconds_ += report.seconds;
    trained_seeds_ += report.seeds;
    epoch_record_ = epoch_record(report);
    metrics_.write(epoch_record_);
    metrics_.write(ranks_record(
        context_.communicator(), context_.topology, report,
        {.peak_device_bytes = peak_torch_device_bytes(context_.device), .samples = memory_samples_.take()}));
    write_traffic(report, traffic_before);
    if (context_.first_rank()) spdlog::debug("{}", stages_line(report));
    unprinted_ = report;
    if (!wants_evaluation_after(progress_.epoch + 1)) print_epoch(nullptr, false);
    return true;
  }

  /// Estimates the rest of the run with evaluations, at the pace so far; `done` are seeds of this epoch.
  double seconds_left(Count done) const {
    const Count epochs = static_cast<Count>(config_.epochs) - progress_.epoch;
    const auto left = static_cast<double>(epochs * session_.pipeline.num_seeds() - done);
    return seconds_since(training_start_) / static_cast<double>(std::max<Count>(1, trained_seeds_ + done)) *
           left;
  }

  std::string words_of_bar() const {
    return bar_words({.loss_sum = progress_.loss_sum,
                      .seeds = progress_.seeds,
                      .best_valid = progress_.best_epoch > 0 ? &progress_.best_valid : nullptr,
                      .metric = context_.task.metric()});
  }

  /// Takes the count of input rows of all ranks. Collective.
  Count take_input_rows() {
    Count rows = session_.pipeline.take_input_rows();
    context_.communicator().all_reduce(std::span(&rows, 1));
    return rows;
  }

  void write_traffic(const EpochReport& report, const RankTraffic& before) {
    if (context_.topology.num_machines() == 1) return;
    metrics_.write(traffic_record(context_.communicator(), context_.topology, report,
                                  session_.traffic().since(before), session_.pipeline.batches_in_flight()));
  }

  /// Trains up to the next step that shall run on other SMs, or to the end of the epoch; returns true if the
  /// ranks agreed to stop.
  bool train_segment(ProgressBar& bar) {
    const Count steps = session_.pipeline.steps_per_epoch();
    const auto epochs = static_cast<Count>(config_.epochs) - progress_.epoch;
    Count end = sms_.begin_segment(
        {.first = progress_.step_in_epoch, .end = steps, .all = epochs * steps - progress_.step_in_epoch});
    const bool timed = session_.pipeline.wants_step_times();
    if (timed) end = std::min(end, progress_.step_in_epoch + kTimedSteps);
    end = end_of_update(end);  // where a stop may be noticed and a checkpoint written
    const Count first = progress_.step_in_epoch;
    const auto start = Clock::now();
    log_sms();
    session_.pipeline.begin({.epoch = progress_.epoch, .first = progress_.step_in_epoch, .end = end});
    bool stopping = false;
    while (!stopping) {
      const batches::LoadedBatch* batch = session_.pipeline.next(sms_.stream());
      if (batch == nullptr) break;
      context_.alive("training");
      memory_samples_.poll();
      const batches::TraceSpan span(session_.trace.get(), batches::Trace::Lane::train, batch->key.step);
      const auto outcome =
          steps_.run(*batch, place_of(progress_.step_in_epoch), stop_.requested(), sms_.stream());
      log_first_step();
      ++progress_.step_in_epoch;
      bar.advance(batch->num_global_seeds);
      session_.pipeline.release(*batch, sms_.stream());
      if (outcome) stopping = note(*outcome);
      loader_threads_.end_step();
      sms_.end_step();
    }
    if (const auto outcome = steps_.drain()) stopping = note(*outcome) || stopping;
    sms_.end_segment();
    log_sms();
    if (timed && !stopping) note_step_times(seconds_since(start), progress_.step_in_epoch - first);
    return stopping;
  }

  /// Passes on the times of the run's first steps, which still count for their epoch.
  void note_step_times(double seconds, Count steps) {
    const batches::LoaderTimes times = session_.pipeline.take_times();
    first_times_ = first_times_ + times;
    session_.pipeline.note_step_times(times, std::max(0.0, seconds - times.wait), steps);
  }

  void log_sms() {
    const std::string message = sms_.take_message();
    if (!message.empty() && context_.first_rank()) spdlog::info("{}", message);
    if (const auto result = sms_.take_result()) metrics_.write(sm_split_record(*result));
  }

  Count end_of_update(Count end) const {
    const Count updates = (end + config_.accumulate - 1) / config_.accumulate;
    return std::min(updates * config_.accumulate, session_.pipeline.steps_per_epoch());
  }

  /// The place of a batch in its update: the batches of an update are neighbors in the epoch.
  StepRunner::Place place_of(Count step) const {
    const Count steps = session_.pipeline.steps_per_epoch(),
                first = step / config_.accumulate * config_.accumulate;
    const Count last = std::min(first + config_.accumulate, steps) - 1;
    return {.first = step == first,
            .last = step == last,
            .num_seeds = session_.pipeline.num_global_seeds(first, last + 1)};
  }

  /// Ends the run, or leaves the update out. Every rank knows that the sum of the losses is not finite.
  void refuse(const StepOutcome& outcome) {
    NotFinite found{.epoch = static_cast<int>(progress_.epoch) + 1,
                    .step = outcome.step_in_epoch + 1,
                    .mine = !std::isfinite(outcome.local_loss),
                    .seeds = {}};
    const store::GraphView& view = session_.graph.host_view();
    const Count first = outcome.step_in_epoch / config_.accumulate * config_.accumulate;
    for (Count step = first; found.mine && step <= outcome.step_in_epoch; ++step) {
      for (const NodeId seed : session_.pipeline.seeds_of(progress_.epoch, step))
        found.seeds.push_back(view.original_ids[seed]);
    }
    const std::string what = describe(found, context_.communicator());
    if (config_.on_nan == OnNan::stop) {
      throw Error(what,
                  "Lower --lr, clip the gradient (--clip-grad 1), look at the features of these seeds' "
                  "neighborhoods, or leave such updates out (--on-nan skip).");
    }
    if (context_.first_rank()) spdlog::warn("{}; its update is left out", what);
  }

  /// Takes a step's outcome into account; returns true if a rank was asked to stop.
  bool note(const StepOutcome& outcome) {
    if (!std::isfinite(outcome.loss_sum)) {
      refuse(outcome);
      return outcome.stop;
    }
    progress_.loss_sum += outcome.loss_sum;
    progress_.hits += outcome.hits;
    progress_.seeds += outcome.seeds;
    const Count step = outcome.step_in_epoch + 1;
    if (config_.log_every > 0 && step % config_.log_every == 0) {
      const int epoch = static_cast<int>(progress_.epoch) + 1;
      const double loss = outcome.loss_sum / outcome.seeds,
                   accuracy = share_of_hits(outcome.hits, outcome.seeds);
      metrics_.write(step_record(epoch, step, loss, accuracy));
      if (context_.first_rank()) {
        spdlog::info("epoch {} step {}/{}  loss {:.4f}{}", epoch, step, session_.pipeline.steps_per_epoch(),
                     loss,
                     context_.task.counts_hits() ? fmt::format("  train accuracy {:.4f}", accuracy) : "");
      }
    }
    return outcome.stop;
  }

  /// Returns false if the ranks agreed to stop: there are no scores.
  bool evaluate() {
    wait_for_features();
    context_.alive("evaluating");
    const batches::TraceSpan span(session_.trace.get(), batches::Trace::Lane::evaluate);
    free_for_evaluation();
    Evaluator& evaluator = session_.evaluators.chosen();
    progress_.evaluation_kind = session_.evaluators.kind();
    agree_on_weights();
    const Evaluation evaluation = evaluator.evaluate(*session_.learner.model);
    context_.alive("training");
    if (evaluation.stopped) return false;
    const int epoch = static_cast<int>(progress_.epoch);
    const nlohmann::json scores = evaluation_record(epoch, evaluation);
    metrics_.write(scores);
    for (const char* split : {"valid", "test"}) epoch_record_[split] = scores[split];
    const bool is_best =
        progress_.best_epoch == 0 || evaluation.valid.beats(progress_.best_valid, context_.task.metric());
    print_epoch(&evaluation, is_best);
    if (!is_best) {
      ++progress_.evaluations_without_gain;
      return true;
    }
    if (!evaluation.test_details.empty()) metrics_.write(details_record(epoch, evaluation.test_details));
    progress_.evaluations_without_gain = 0;
    progress_.best_epoch = epoch;
    progress_.best_valid = evaluation.valid;
    progress_.best_test = evaluation.test;
    progress_.best_parameters = session_.learner.parameters.values().detach().clone();
    progress_.best_buffers = copies_of(buffers_of(*session_.learner.model));
    if (session_.learner.rows)
      progress_.best_rows = session_.learner.rows->table().to(at::kCPU, false, /*copy=*/true);
    write_model();
    return true;
  }

  /// Frees for evaluation what training can rebuild.
  void free_for_evaluation() {
    session_.pipeline.release_buffers();
    if (!session_.table.defined()) steps_.forget_graphs();
    return_freed_memory();
  }

  void write_model() {
    if (!context_.first_rank()) return;
    folder_.require();
    nn::TensorFile file{.tensors = session_.learner.weights(), .metadata = {}};
    const graph::Manifest& manifest = session_.graph.manifest();
    file.metadata = model_facts(
        config_, {.in_cols = input_cols(config_, manifest), .out_cols = context_.task.output_cols(manifest)},
        manifest.types.nodes.size() > 1 ? session_.target.name : "", progress_.best_epoch);
    file.metadata.merge(context_.task.facts(manifest));
    context_.watchdog.take_time("writing the model");
    nn::write_tensors(path("model.safetensors"), file);
    context_.alive("after the model");
  }

  /// Makes buffers the same on all ranks; parameters must be. Called once for everything that reads the
  /// weights between two epochs.
  void agree_on_weights() {
    if (std::exchange(weights_agreed_, true)) return;
    agree_on_buffers(*session_.learner.model, context_.communicator());
    require_equal_weights(*session_.learner.model, context_.communicator());
    if (session_.learner.rows) require_equal_rows(*session_.learner.rows, context_.communicator());
  }

  void write_checkpoint() {
    // A slow disk is no hang: not of the first rank, and not of those that wait for it.
    context_.watchdog.take_time("writing a checkpoint");
    agree_on_weights();
    if (context_.first_rank()) {
      folder_.require();
      checkpoints_.save(checkpoint_parts());
    }
    context_.alive("after a checkpoint");
  }

  /// Copies of the best weights on the CPU; null if no epoch was evaluated. Nothing may train afterwards.
  std::shared_ptr<const std::vector<nn::NamedTensor>> best_weights() {
    if (progress_.best_epoch == 0) return nullptr;
    session_.learner.parameters.values().copy_(progress_.best_parameters);
    copy_values(buffers_of(*session_.learner.model), progress_.best_buffers);
    if (session_.learner.rows) session_.learner.rows->table().copy_(progress_.best_rows);
    std::vector<nn::NamedTensor> weights = session_.learner.weights();
    for (nn::NamedTensor& weight : weights)
      weight.tensor = weight.tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
    return std::make_shared<const std::vector<nn::NamedTensor>>(std::move(weights));
  }

  TrainResult finish(bool stopped) {
    if (unprinted_) print_epoch(nullptr, false);
    TrainResult result{
        .folder = config_.output,
        .stopped = stopped,
        .best_epoch = progress_.best_epoch,
        .valid = progress_.best_valid,
        .test = progress_.best_test,
        .epochs_done = static_cast<int>(progress_.epoch),
        .seeds_per_second = train_seconds_ > 0 ? static_cast<double>(trained_seeds_) / train_seconds_ : 0,
        .weights = nullptr};
    if (!stopped && context_.topology.num_machines() > 1) log_exchange();
    const FinalReport report{.result = result,
                             .peak_host_bytes = peak_resident_bytes(),
                             .peak_device_bytes = peak_torch_device_bytes(context_.device)};
    metrics_.write(final_record(report));
    if (context_.first_rank() && !stopped) print(final_table(report));
    if (context_.first_rank()) print(closing_text(config_, result));
    result.weights = best_weights();
    session_.close();
    context_.close();
    return result;
  }

  void log_exchange() {
    const ExchangeTotals totals = session_.exchange_totals();
    metrics_.write(exchange_record(totals));
    if (context_.first_rank()) print(exchange_table(totals));
  }

  const Clock::time_point start_ = Clock::now();
  Clock::time_point training_start_ = {};  ///< when loading was over
  const TrainConfig& config_;
  StopListener& stop_;
  const EpochCallback& on_epoch_;  ///< may be empty
  RunFolder& folder_;
  RunContext context_;
  Session session_;
  std::string signature_;
  StepRunner steps_;
  LoaderThreads loader_threads_;
  SmMeasurement sms_;
  CheckpointFiles checkpoints_;
  MemorySamples memory_samples_;
  ProgressState progress_;
  MetricsLog metrics_;
  batches::LoaderTimes first_times_;  ///< of this epoch, taken before its end
  nlohmann::json epoch_record_;       ///< of the last epoch that is over
  bool weights_agreed_ = false;
  bool begun_ = false;                    ///< a step was made
  bool features_are_there_ = false;       ///< see wait_for_features()
  bool stop_after_epoch_ = false;         ///< the ranks agreed to stop in its last step
  std::optional<EpochReport> unprinted_;  ///< report of the epoch whose line is not printed yet
  double train_seconds_ = 0;
  Count trained_seeds_ = 0;
};

/// The log of a run, which the first rank writes from here on. Null elsewhere. Collective.
std::unique_ptr<LogFile> open_log(const RunFolder& folder, const comm::Communicator& communicator) {
  std::unique_ptr<LogFile> log;
  communicator.together([&] {
    if (communicator.rank() == 0) log = std::make_unique<LogFile>(folder.log_path().string());
  });
  return log;
}

TrainResult run(const TrainConfig& config, const comm::World& world, StopListener& stop,
                const ModelFactory& make_model, const Task& task, RunFolder& folder,
                const EpochCallback& on_epoch) {
  std::unique_ptr<Run> run;
  try {
    run = std::make_unique<Run>(config, world, stop, make_model, task, folder, on_epoch);
    stop.loaded();
    return run->execute();
  } catch (...) {
    // Stages of this rank may wait for other ranks for ever; the caller ends the process, nothing may wait
    // for them here. A rank on its own gives its memory back, for callers that go on.
    if (world.size() > 1) (void)run.release();
    rethrow_explained();
  }
}

}  // namespace

TrainResult train(const TrainConfig& config, const comm::World& world, StopListener& stop,
                  const ModelFactory& make_model, const Task* task, const EpochCallback& on_epoch) {
  world.communicator().together([&] { validate(config); });
  require_same_config(config, world.communicator());
  RunFolder folder(config, world.communicator());
  TrainConfig chosen = settled(config);
  chosen.output = folder.path().string();
  const std::unique_ptr<LogFile> log = open_log(folder, world.communicator());
  std::unique_ptr<Task> of_config;
  world.communicator().together([&] { of_config = make_task(chosen); });
  return run(chosen, world, stop, make_model, task != nullptr ? *task : *of_config, folder, on_epoch);
}

}  // namespace strata::train
