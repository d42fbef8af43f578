// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "strata/cli/options.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/train/trainer.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"

namespace {

using namespace strata;

namespace fs = std::filesystem;

/// Checks a file that is written when training has ended.
void check_can_write(const char* option, const std::string& file) {
  if (file.empty() || can_write_file(file)) return;
  throw InputError(fmt::format("{}: cannot write {}", option, file),
                   "Name a file in a folder that is there and that this user may write.");
}

/// The first rank makes the folder, and tries to write its files before anything is computed.
void prepare_output(const train::TrainConfig& config) {
  std::error_code failed;
  fs::create_directories(config.output, failed);
  if (failed || !can_write_file(fs::path(config.output) / "train.log")) {
    throw InputError(fmt::format("--output: cannot write into {}", config.output),
                     "Give a folder that this user may write.");
  }
  check_can_write("--predictions", config.predictions);
  check_can_write("--trace", config.trace);
  add_log_file((fs::path(config.output) / "train.log").string());
}

int run(const train::TrainConfig& config, const comm::World& world, train::StopListener& stop) {
  init_log(fmt::format("rank {}", world.rank()), config.log_level);
  if (world.rank() == 0) prepare_output(config);
  const train::TrainResult result = train::train(config, world, stop);
  if (result.stopped && world.rank() == 0) {
    fmt::print("stopped by a signal in epoch {}; continue with --resume\n", result.epochs_done + 1);
  }
  return static_cast<int>(result.stopped ? ExitCode::stopped : ExitCode::ok);
}

/// Lets one rank report an error and end the others: a rank that failed itself comes before its echoes, and
/// lower ranks come first if all fail in the same way.
std::chrono::milliseconds time_for_others_to_speak(int rank, const std::exception& error) {
  const auto* typed = dynamic_cast<const Error*>(&error);
  if (typed != nullptr && typed->is_echo()) return std::chrono::milliseconds(3000);
  return std::chrono::milliseconds(rank == 0 ? 0 : 1000);
}

/// Prints and ends all ranks.
[[noreturn]] void fail(const comm::World& world, const std::exception& error) {
  std::this_thread::sleep_for(time_for_others_to_speak(world.rank(), error));
  const std::string who = world.size() == 1
                              ? "strata-train"
                              : fmt::format("strata-train: rank {} (host {})", world.rank(), world.host());
  fmt::print(stderr, "{}\n", format_error(who, error));
  std::fflush(stderr);
  world.abort(static_cast<int>(exit_code(error)));
}

/// Every step allocates and frees tensors of tens of megabytes. If malloc keeps their memory, it causes no
/// page faults in the next step.
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

/// Ends all ranks: there is nothing to save yet, and other ranks may wait for this one.
[[noreturn]] void leave_while_loading(const comm::World& world, int signal) {
  using std::chrono::milliseconds;
  // When a rank has failed, mpirun terminates the others and kills them a second later; the failed rank has
  // already reported the error.
  if (signal == SIGTERM) std::this_thread::sleep_for(milliseconds(1500));
  if (world.rank() != 0) std::this_thread::sleep_for(milliseconds(500));  // so that only one rank reports it
  fmt::print(stderr, "strata-train: stopped by a signal ({}) before the first step; nothing is lost\n",
             strsignal(signal));
  std::fflush(stderr);
  world.abort(static_cast<int>(ExitCode::stopped));
}

}  // namespace

int main(int argc, char** argv) {
  train::StopListener stop;  // first; start.cpp has blocked the signals so far
  keep_freed_memory();
  // Bit-for-bit repeatable matrix products on the GPU need a fixed workspace; idle MPI ranks must not starve
  // busy ones.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  cli::ParsedOptions options;
  try {
    options = cli::parse_train_options(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", format_error("strata-train", e));
    return static_cast<int>(exit_code(e));
  }
  if (!options.config) {
    fmt::print("{}", options.text);
    return 0;
  }
  comm::World world(&argc, &argv);
  stop.until_loaded([&world](int signal) { leave_while_loading(world, signal); });
  try {
    return run(*options.config, world, stop);
  } catch (const std::exception& e) {
    fail(world, e);
  }
}
