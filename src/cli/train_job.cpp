// SPDX-License-Identifier: Apache-2.0
#include "strata/cli/train_job.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

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

void refuse_what_trains_not_once(const ParsedOptions& options, const TrainJob::Setup& setup) {
  if (!options.seeds.empty())
    throw InputError(fmt::format("{}() trains once, and seeds are for several runs", setup.caller),
                     "Call it once with each seed: seed=0, seed=1.");
}

}  // namespace

struct TrainJob::State {
  State(std::vector<NamedOption> options, Setup s)
      : setup(std::move(s)),
        asked(Asked::of([&] {
          return Command(std::move(options), setup.caller, setup.plan_only ? Purpose::plan : Purpose::train);
        })),
        stop(train::StopListener::ByHand{}) {}

  Setup setup;
  Asked asked;
  train::StopListener stop;
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
    Outcome outcome{.result = train::train(*options.config, world, stop), .records = {}};
    world.communicator().together([&] {
      if (world.rank() == 0) outcome.records = read_file(outcome.result.folder + "/metrics.jsonl");
    });
    world.communicator().broadcast(outcome.records, 0);
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
  state_->work.emplace([state = state_] { return state->run(); });
}
TrainJob::TrainJob(TrainJob&&) noexcept = default;
TrainJob::~TrainJob() = default;

bool TrainJob::wait_for(std::chrono::milliseconds patience) const { return state_->work->wait_for(patience); }
void TrainJob::stop(int signal) { state_->stop.request(signal); }
bool TrainJob::is_loading() const { return !state_->stop.is_loaded(); }
TrainJob::Outcome TrainJob::take() { return state_->work->get(); }

}  // namespace strata::cli
