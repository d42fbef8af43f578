// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "strata/partition/command.hpp"
#include "strata/util/threads.hpp"

namespace strata::partition {

struct CommandJob::State {
  Command command;
  StopFlag stop{};
  std::optional<Background<CommandResult>> work{};
};

CommandJob::CommandJob(Command command) : state_(std::make_shared<State>(std::move(command))) {
  state_->work.emplace([state = state_] { return state->command.run(state->stop); });
}
CommandJob::CommandJob(CommandJob&&) noexcept = default;
CommandJob::~CommandJob() = default;

bool CommandJob::wait_for(std::chrono::milliseconds patience) const {
  return state_->work->wait_for(patience);
}
void CommandJob::stop() { state_->stop.request(); }
bool CommandJob::has_files() const { return state_->stop.cleanup_needed(); }
CommandResult CommandJob::take() { return state_->work->get(); }

}  // namespace strata::partition
