// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>

#include "strata/partition/command.hpp"

namespace strata::partition {

/// A command on a thread of its own, for programs that have more to do and handle signals themselves.
class CommandJob {
 public:
  explicit CommandJob(Command command);
  CommandJob(CommandJob&&) noexcept;
  ~CommandJob();  ///< does not wait: work that has not ended goes on

  bool wait_for(std::chrono::milliseconds patience) const;  ///< whether it has ended by then
  /// Asks it to end without a result. It may work on for a while, for example in METIS, but writes nothing.
  void stop();
  /// Whether it has files that it would remove first when stopped, which takes moments.
  bool has_files() const;
  /// Waits for the end. Throws what Command::run() throws; call it once.
  CommandResult take();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::partition
