// SPDX-License-Identifier: Apache-2.0
#include "strata/cli/program.hpp"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>

#include "agree.hpp"
#include "process_settings.hpp"
#include "runs.hpp"
#include "strata/cli/options.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/comm/farewell.hpp"
#include "strata/comm/launcher_rank.hpp"
#include "strata/train/doctor_advice.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/progress.hpp"

namespace strata::cli {
namespace {

using std::chrono::milliseconds;

/// Of an error on all ranks, that of the first rank stands for all.
std::string speaker_name(const std::string& program, const comm::World& world, bool for_all) {
  if (world.size() == 1 || (for_all && world.rank() == 0)) return program;
  return fmt::format("{}: rank {} (host {})", program, world.rank(), world.host());
}

/// Whether an mpirun that was not told to be quiet adds its own words about the exit code.
bool mpirun_will_comment() {
  const char* quiet = std::getenv("OMPI_MCA_orte_execute_quiet");  // also of mpirun -q
  return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr &&
         (quiet == nullptr || quiet != std::string_view("1"));
}

/// `advice` is for failures whose cause may lie in a host, not in what the user typed.
void print_error(const std::string& who, const std::exception& error, const std::string& advice) {
  clear_bar();
  fmt::print(stderr, "{}\n", format_error(who, error));
  if (exit_code(error) != ExitCode::bad_input) fmt::print(stderr, "  {}\n", advice);
  if (mpirun_will_comment())
    fmt::print(stderr, "  (mpirun only adds the exit code; mpirun -q or launch/mpi-env leaves it out.)\n");
  std::fflush(stderr);
}

/// Ends the process if MPI does not finish: something may wait for what never comes.
void limit_time_to_finish(int exit_code) {
  static constexpr std::chrono::seconds kPatience{5};
  std::thread([exit_code] {
    std::this_thread::sleep_for(kPatience);
    std::_Exit(exit_code);
  }).detach();
}

/// Reports an error, once for all ranks. If all ranks met one before work began, the caller ends the run in
/// order with this exit code. Otherwise it ends here for all ranks.
int fail(const std::string& program, const comm::World& world, const comm::Farewell& farewell,
         train::StopListener& stop, const graph::Source& graph, const std::exception& error) {
  stop.loaded();  // mpirun terminates the ranks that are still there when the first has left
  const auto* typed = dynamic_cast<const Error*>(&error);
  const bool echo = typed != nullptr && typed->is_echo();
  const int code = static_cast<int>(exit_code(error));
  // A rank that failed itself comes before its echoes, and lower ranks come first if all fail in the same
  // way.
  const milliseconds patience(echo ? 3000 : world.rank() == 0 ? 1000 : 2000);
  const std::optional<int> speaker = farewell.meet(!echo, patience);
  if (!speaker || *speaker == world.rank())
    print_error(speaker_name(program, world, speaker.has_value()), error,
                train::doctor_advice(world.size(), graph));
  const bool in_order = speaker && exit_code(error) == ExitCode::bad_input;
  if (!in_order) {
    // The speaker needs a moment before the end reaches its process.
    if (speaker && *speaker != world.rank()) std::this_thread::sleep_for(milliseconds(1000));
    world.abort(code);
  }
  limit_time_to_finish(code);
  return code;
}

/// Ends all ranks: there is nothing to save yet, and other ranks may wait for this one.
[[noreturn]] void leave_while_loading(const std::string& program, const comm::World& world, int signal) {
  // When a rank has failed, mpirun terminates the others and kills them a second later; the failed rank has
  // already reported the error.
  if (signal == SIGTERM) std::this_thread::sleep_for(milliseconds(1500));
  if (world.rank() != 0) std::this_thread::sleep_for(milliseconds(500));  // so that only one rank reports it
  fmt::print(stderr, "{}: stopped by a signal ({}) before the first step; nothing is lost\n", program,
             strsignal(signal));
  std::fflush(stderr);
  world.abort(static_cast<int>(ExitCode::stopped));
}

}  // namespace

int run_program(int argc, char** argv, const Program& program) {
  train::StopListener stop;  // first; start.cpp has blocked the signals of strata-train so far
  const KeptMemory memory;
  set_environment();
  const Asked words = Asked::of([&] { return Command(argc, argv, program.own_model); });
  if (words.command && !words.command->text().empty()) {
    if (comm::rank_of_launcher() == 0) fmt::print("{}", words.command->text());
    return 0;
  }
  comm::World world(&argc, &argv);
  const comm::Farewell farewell(world.communicator());
  stop.until_loaded([&](int signal) { leave_while_loading(program.name, world, signal); });
  graph::Source graph;
  try {
    const ParsedOptions options = agree(words, world.communicator());
    graph = options.config->graph;
    return execute(options, world, stop, program.make_model);
  } catch (const std::exception& e) {
    return fail(program.name, world, farewell, stop, graph, e);
  }
}

}  // namespace strata::cli
