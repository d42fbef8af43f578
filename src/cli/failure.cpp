// SPDX-License-Identifier: Apache-2.0
#include "strata/cli/failure.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "strata/util/log.hpp"

namespace strata::cli {
namespace {

using std::chrono::milliseconds;

/// The name before an error's text; for an error on all ranks, the first rank speaks for all.
std::string speaker_name(const std::string& program, const comm::World& world, bool for_all) {
  if (world.size() == 1 || (for_all && world.rank() == 0)) return program;
  return fmt::format("{}: rank {} (host {})", program, world.rank(), world.host());
}

/// Whether an mpirun without --quiet adds its own words about the exit code.
bool mpirun_will_comment() {
  const char* quiet = std::getenv("OMPI_MCA_orte_execute_quiet");  // also of mpirun -q
  return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr &&
         (quiet == nullptr || quiet != std::string_view("1"));
}

void print_failure(const Failure& failure, const std::string& who) {
  clear_bar();
  fmt::print(stderr, "{}\n", format_error(who, failure.error));
  if (exit_code(failure.error) != ExitCode::bad_input && !failure.advice.empty())
    fmt::print(stderr, "  {}\n", failure.advice);
  explain_mpirun();
}

/// Ends the process if MPI does not finish: it may wait for something that never comes.
void limit_time_to_finish(int exit_code) {
  static constexpr std::chrono::seconds kPatience{5};
  std::thread([exit_code] {
    std::this_thread::sleep_for(kPatience);
    std::_Exit(exit_code);
  }).detach();
}

}  // namespace

void explain_mpirun() {
  if (mpirun_will_comment())
    fmt::print(stderr, "  (mpirun only adds the exit code; mpirun -q leaves it out.)\n");
  std::fflush(stderr);
}

int fail(const Failure& failure, const comm::World& world, const comm::OrderlyEnd* orderly_end) {
  const auto* typed = dynamic_cast<const Error*>(&failure.error);
  const bool echo = typed != nullptr && typed->is_echo();
  const int code = static_cast<int>(failure.code.value_or(exit_code(failure.error)));
  // A rank that failed itself comes before its echoes, and lower ranks come first if all fail in the same
  // way.
  const milliseconds patience(echo ? 3000 : world.rank() == 0 ? 1000 : 2000);
  std::optional<int> speaker;
  if (orderly_end != nullptr) speaker = orderly_end->meet(!echo, patience);
  const bool all_failed = speaker.has_value(), speaks = speaker.value_or(world.rank()) == world.rank();
  if (speaks) print_failure(failure, speaker_name(failure.program, world, all_failed));
  const bool in_order = all_failed && exit_code(failure.error) == ExitCode::bad_input;
  if (!in_order) {
    // The speaker needs a moment before the end reaches its process.
    if (!speaks) std::this_thread::sleep_for(milliseconds(1000));
    world.abort(code);
  }
  limit_time_to_finish(code);
  return code;
}

}  // namespace strata::cli
