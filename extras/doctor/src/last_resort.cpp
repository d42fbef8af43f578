// SPDX-License-Identifier: Apache-2.0
#include "strata/doctor/last_resort.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "strata/comm/backend.hpp"
#include "strata/comm/launcher.hpp"
#include "strata/doctor/finding.hpp"
#include "strata/util/error.hpp"

namespace strata::doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// "strata-doctor: rank 2 of 3 (host b)", with the launcher's numbers.
std::string name_of_this_rank() {
  const int ranks = comm::ranks_of_launcher();
  return fmt::format("strata-doctor: rank {}{} (host {})", comm::rank_of_launcher(),
                     ranks > 0 ? fmt::format(" of {}", ranks) : "", comm::host_name());
}

std::string advice_for_start() {
  return fmt::format(
      "  It waits for every rank. A rank without such a line has not started, is\n"
      "  stopped, or hangs before MPI: look at its host. If all ranks have one, MPI\n"
      "  finds no network between the hosts, or is slow: without --quick it has longer.\n"
      "  See {}\n",
      remedy_page(Remedy::silence));
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(at(written));
  }
}

}  // namespace

LastResort::LastResort(seconds limit)
    : limit_(limit), end_(std::chrono::steady_clock::now() + limit), who_(name_of_this_rank()) {
  struct sigaction action {};
  action.sa_sigaction = &LastResort::speak;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  event.sigev_value.sival_ptr = this;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) throw IoError("the system gives no timer");
  // The time from a line to the end: the line of a rank that began later still comes, and then the launcher
  // ends the others.
  constexpr seconds kOfFirst{2}, kOfOthers{4};
  const seconds start = limit - kOfOthers;
  line_ = fmt::format("{}: MPI_Init has not returned within {} s\n", who_, start.count());
  advice_ = advice_for_start();
  set(start, comm::rank_of_launcher() == 0 ? kOfFirst : kOfOthers);
}

LastResort::~LastResort() { timer_delete(timer_); }

void LastResort::mpi_has_started() {
  set({}, {});  // the handler must not read what changes
  line_ = fmt::format("{}: no end within {} s\n", who_, limit_.count());
  advice_ = fmt::format("  See {}\n", remedy_page(Remedy::silence));
  has_spoken_ = false;
  const auto left = std::chrono::ceil<milliseconds>(end_ - std::chrono::steady_clock::now());
  set(std::max(left, milliseconds(1)), milliseconds(1));
}

void LastResort::set(milliseconds first, milliseconds again) const {
  const auto spec = [](milliseconds time) {
    const auto whole = std::chrono::floor<seconds>(time);
    return timespec{.tv_sec = whole.count(), .tv_nsec = std::chrono::nanoseconds(time - whole).count()};
  };
  const itimerspec times{.it_interval = spec(again), .it_value = spec(first)};
  timer_settime(timer_, 0, &times, nullptr);
}

/// Calls only what a handler of signals may: write, _exit.
void LastResort::speak(int, siginfo_t* info, void*) {
  if (info->si_code != SI_TIMER) return;  // somebody else's SIGALRM
  auto* self = static_cast<LastResort*>(info->si_value.sival_ptr);
  if (!self->has_spoken_) {
    self->has_spoken_ = true;
    const int before = errno;  // of what was interrupted
    write_all(self->line_);
    errno = before;
    return;
  }
  write_all(self->advice_);
  _exit(static_cast<int>(ExitCode::bad_input));
}

}  // namespace strata::doctor
