// SPDX-License-Identifier: Apache-2.0
#include "strata/cli/train_job.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "agree.hpp"
#include "process_settings.hpp"
#include "strata/train/planning.hpp"
#include "strata/train/trainer.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"
#include "strata/util/threads.hpp"

namespace strata::cli {
namespace {

/// Restores libtorch's settings at its end.
class TorchSettings {
 public:
  TorchSettings() = default;
  ~TorchSettings() {
    using Option = at::CuBLASReductionOption;
    if (allows_tf32_) at::globalContext().setAllowTF32CuBLAS(*allows_tf32_);
    at::globalContext().setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL, precision_);
    at::globalContext().setAllowBF16ReductionCuBLAS(bf16_ == Option::AllowReducedPrecisionWithSplitK,
                                                    bf16_ != Option::DisallowReducedPrecisionDisallowSplitK);
    at::set_num_threads(threads_);
  }
  TorchSettings(const TorchSettings&) = delete;
  TorchSettings& operator=(const TorchSettings&) = delete;

 private:
  /// Whether libtorch allows tf32; nothing where the program sets precisions in libtorch's newer way.
  static std::optional<bool> allows_tf32() {
    try {
      return at::globalContext().allowTF32CuBLAS();
    } catch (const c10::Error&) {
      return std::nullopt;
    }
  }

  std::optional<bool> allows_tf32_ = allows_tf32();
  at::Float32Precision precision_ =
      at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL);
  at::CuBLASReductionOption bf16_ = at::globalContext().allowBF16ReductionCuBLAS();
  int threads_ = at::get_num_threads();
};

/// The log of a run, until it ends.
class RunLog {
 public:
  RunLog(const train::TrainConfig& config, const comm::World& world, LogLevel terminal) {
    const bool given = config.provenance.given_by.contains("log-level");
    init_log(world.size() > 1 ? fmt::format("rank {}", world.rank()) : "", config.log_level,
             given ? config.log_level : terminal);
  }
  ~RunLog() { spdlog::set_default_logger(before_); }
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

 private:
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

/// Hands records of epochs from the thread that trains to the program, and its answers back.
class EpochReports {
 public:
  /// Returns the program's answer, or false if `stopped` comes first; wake() makes it look.
  bool ask(const std::string& record, const std::function<bool()>& stopped) {
    std::unique_lock lock(mutex_);
    record_ = record;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !record_ || stopped(); });
    return !std::exchange(record_, std::nullopt) && goes_on_;
  }
  std::optional<std::string> record() const {
    const std::lock_guard lock(mutex_);
    return record_;
  }
  void answer(bool goes_on) {
    const std::lock_guard lock(mutex_);
    record_.reset();
    goes_on_ = goes_on;
    changed_.notify_all();
  }
  void wake() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  /// Returns whether the work has ended by then; earlier if there is a record.
  bool wait_for(std::chrono::milliseconds patience) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return record_ || ended_; });
    return ended_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<std::string> record_;
  bool goes_on_ = true, ended_ = false;
};

void refuse_what_trains_not_once(const ParsedOptions& options, const TrainJob::Setup& setup) {
  if (!options.seeds.empty())
    throw InputError(fmt::format("{}() trains once, and seeds are for several runs", setup.caller),
                     "Call it once with each seed: seed=0, seed=1.");
}

}  // namespace

struct TrainJob::State {
  State(std::vector<NamedOption> options, Setup s)
      : setup(std::move(s)),
        asked(Asked::of([&] { return Command(std::move(options), setup.caller, setup.purpose); })),
        stop(train::StopListener::ByHand{}) {}

  Setup setup;
  Asked asked;
  train::StopListener stop;
  EpochReports reports{};
  std::optional<Background<Outcome>> work{};

  Outcome run() {
    comm::World world(std::move(setup.ranks));
    ParsedOptions options = agree(asked, world.communicator());
    if (options.config) options.config->topology.gpu = setup.gpu;
    refuse_what_trains_not_once(options, setup);
    const RunLog log(*options.config, world, setup.terminal);
    const TorchSettings torch;
    const KeptMemory memory;
    if (options.plan) return plan(options, world);
    choose_progress(options.config->progress);
    if (options.inference) return use_model(options, world);
    train::EpochCallback on_epoch;
    if (setup.reports_epochs)
      on_epoch = [this](const std::string& record) {
        return reports.ask(record, [this] { return stop.requested(); });
      };
    Outcome outcome{
        .result = train::train(*options.config, world, stop, nn::make_model, /*task=*/nullptr, on_epoch),
        .records = {}};
    world.communicator().together([&] {
      if (world.rank() == 0) outcome.records = read_file(outcome.result.folder + "/metrics.jsonl");
    });
    world.communicator().broadcast(outcome.records, 0);
    return outcome;
  }

  Outcome use_model(const ParsedOptions& options, const comm::World& world) {
    const train::InferenceResult used = train::infer(*options.config, *options.inference, world, stop);
    Outcome outcome;
    outcome.result.stopped = used.stopped;
    outcome.result.valid = used.valid;
    outcome.result.test = used.test;
    return outcome;
  }

  static Outcome plan(const ParsedOptions& options, const comm::World& world) {
    Outcome outcome{.result = {},
                    .records = train::plan_run(*options.config, options.plan->cluster, world).record};
    world.communicator().broadcast(outcome.records, 0);
    return outcome;
  }
};

void prepare_process() { set_environment(); }

TrainJob::TrainJob(std::vector<NamedOption> options, Setup setup) {
  state_ = std::make_shared<State>(std::move(options), std::move(setup));
  state_->work.emplace([state = state_] {
    const std::unique_ptr<State, void (*)(State*)> end(state.get(), [](State* s) { s->reports.end(); });
    return state->run();
  });
}
TrainJob::TrainJob(TrainJob&&) noexcept = default;
TrainJob::~TrainJob() = default;

bool TrainJob::wait_for(std::chrono::milliseconds patience) const {
  return state_->reports.wait_for(patience) && state_->work->wait_for(patience);
}
std::optional<std::string> TrainJob::epoch_record() const { return state_->reports.record(); }
void TrainJob::answer(bool goes_on) { state_->reports.answer(goes_on); }
void TrainJob::stop(int signal) {
  state_->stop.request(signal);
  state_->reports.wake();
}
bool TrainJob::is_loading() const { return !state_->stop.is_loaded(); }
TrainJob::Outcome TrainJob::take() { return state_->work->get(); }

}  // namespace strata::cli
