// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>

#include "strata/partition/command.hpp"

namespace strata::partition {

/// A command on a thread of its own, for programs that have more to do, and whose signals are their own.
class CommandJob {
 public:
  explicit CommandJob(Command command);
  CommandJob(CommandJob&&) noexcept;
  ~CommandJob();  ///< does not wait: work that has not ended goes on

  bool wait_for(std::chrono::milliseconds patience) const;  ///< whether it has ended by then
  /// Asks it to end without a result. It may work on for a while, in METIS for instance, but writes nothing.
  void stop();
  /// Whether it has files that it removes first when it is stopped, which takes moments.
  bool has_files() const;
  /// Waits for the end. Throws what Command::run() throws; call it once.
  CommandResult take();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::partition
