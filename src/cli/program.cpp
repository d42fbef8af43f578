// SPDX-License-Identifier: Apache-2.0
#include "strata/cli/program.hpp"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "agree.hpp"
#include "process_settings.hpp"
#include "runs.hpp"
#include "strata/cli/failure.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/comm/launcher.hpp"
#include "strata/comm/watchdog.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"
#include "strata/train/config.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/system.hpp"

namespace strata::cli {
namespace {

using std::chrono::milliseconds;

/// Ends all ranks during loading: there is nothing to save yet, and other ranks may wait for this one.
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

int run_program(int argc, char** argv, const Program& program) try {
  train::StopListener stop;  // first; start.cpp has blocked the signals of strata-train so far
  prepare_process();
  const KeptMemory memory;
  set_environment();
  const Asked words = Asked::of([&] { return Command(argc, argv, program.own_model, program.purpose); });
  if (words.command && !words.command->text().empty()) {
    if (comm::rank_of_launcher() == 0) fmt::print("{}", words.command->text());
    return 0;
  }
  comm::World world(torch_ranks::backend_of_launcher(&argc, &argv));
  const comm::OrderlyEnd orderly_end(world.communicator());
  stop.until_loaded([&](int signal) { leave_while_loading(program.name, world, signal); });
  graph::Source graph;
  try {
    const ParsedOptions options = agree(words, world.communicator());
    graph = options.config->graph;
    return execute(options, world, stop, program.make_model);
  } catch (const std::exception& e) {
    stop.loaded();  // mpirun terminates the ranks that are still there when the first has left
    return fail({.program = program.name, .error = e, .advice = train::doctor_advice(world.size(), graph)},
                world, &orderly_end);
  }
} catch (const Error& error) {  // the ranks have not met, and each has found out by itself what did not come
  const bool is_everybodys = dynamic_cast<const InputError*>(&error) != nullptr;
  if (comm::rank_of_launcher() == 0 || !is_everybodys)
    fmt::print(stderr, "{}\n", format_error(program.name, error));
  return static_cast<int>(exit_code(error));
}

}  // namespace strata::cli
