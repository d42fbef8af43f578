// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include "state.hpp"
#include "strata/comm/watchdog.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {

OrderlyEnd::OrderlyEnd(const Communicator& world) : communicator_(world.duplicate()) {}

std::optional<int> OrderlyEnd::meet(bool has_own_message, std::chrono::milliseconds patience) const try {
  const GroupState& state = Internals::of(communicator_);
  const std::optional<std::int64_t> first =
      state.backend->min_within(has_own_message ? state.rank : state.size, patience);
  if (!first) return std::nullopt;
  return *first < state.size ? static_cast<int>(*first) : 0;
} catch (const CommError&) {  // a rank that is gone does not call
  return std::nullopt;
}

EndNotices::EndNotices(const Communicator& world)
    : communicator_(world.duplicate()),
      next_((world.rank() + 1) % world.size()),
      previous_((world.rank() + world.size() - 1) % world.size()) {
  if (world.size() == 1) return;
  std::vector<int> peers{previous_};
  if (next_ != previous_) peers.push_back(next_);
  mailbox_ = Internals::of(communicator_).backend->mailbox(std::move(peers), 1);
}

std::size_t EndNotices::place_of(int rank) const { return rank == previous_ ? 0 : 1; }

void EndNotices::send() {
  const std::lock_guard lock(mutex_);
  const std::array<std::byte, 1> message{};
  if (mailbox_) mailbox_->post(place_of(next_), message);
}

std::optional<int> EndNotices::received() {
  const std::lock_guard lock(mutex_);
  std::array<std::byte, 1> message{};
  if (!received_ && mailbox_ && mailbox_->take(message)) received_ = previous_;
  return received_;
}

}  // namespace strata::comm
