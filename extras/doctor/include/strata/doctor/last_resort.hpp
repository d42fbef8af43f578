// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <csignal>
#include <ctime>
#include <string>

namespace strata::doctor {

/// Ends a process whose time is up, whatever it waits for: MPI starts before any thread could watch it, and
/// its start waits for all ranks. If rank 1 of three does not come, the others print before a limit of 10 s
///
///     strata-doctor: rank 0 of 3 (host a): MPI_Init has not returned within 6 s
///     strata-doctor: rank 2 of 3 (host b): MPI_Init has not returned within 6 s
///       It waits for every rank. A rank without such a line ...
///
/// and end with exit code 2, the first rank before the others, so that one rank gives advice.
///
/// An owner of a timer, whose signal (SIGALRM) is handled without anything that a signal may not do. One per
/// process.
class LastResort {
 public:
  /// Starts the timer; call it before MPI starts. REQUIRES: limit > 4 s.
  explicit LastResort(std::chrono::seconds limit);
  ~LastResort();
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;

  /// Gives what follows the time until the limit, which counts from the beginning. Reaching it has a message
  /// of its own.
  void mpi_has_started();

 private:
  static void speak(int, siginfo_t* info, void*);
  void set(std::chrono::milliseconds first, std::chrono::milliseconds again) const;

  std::chrono::seconds limit_;
  std::chrono::steady_clock::time_point end_;
  std::string who_;
  std::string line_, advice_;  // what speak() writes: at first, and before it ends the process
  bool has_spoken_ = false;
  timer_t timer_ = {};
};

}  // namespace strata::doctor
