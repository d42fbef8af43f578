// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>

#include "polling.hpp"
#include "state.hpp"
#include "strata/comm/watchdog.hpp"

namespace strata::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Mailbox = Backend::Mailbox;

/// Every message is one of these, so all have the same size.
struct Greeting {
  std::array<char, 256> text{};

  static Greeting of(const std::string& word) {
    Greeting greeting;
    word.copy(greeting.text.data(), greeting.text.size() - 1);
    return greeting;
  }
};
constexpr const char *kAllHere = "all are here", *kSomeMissing = "some are missing";

void post(Mailbox& mailbox, std::size_t peer, const Greeting& greeting) {
  mailbox.post(peer, std::as_bytes(std::span(&greeting, 1)));
}

std::optional<std::size_t> take(Mailbox& mailbox, Greeting& greeting) {
  return mailbox.take(std::as_writable_bytes(std::span(&greeting, 1)));
}

Presence gather_words(Mailbox& mailbox, std::size_t others, const std::string& own_word,
                      std::chrono::milliseconds patience) {
  Presence presence{.words = std::vector<std::string>(others + 1)};
  presence.words.front() = own_word;
  std::vector<bool> heard(others);
  std::size_t count = 0;
  presence.complete = poll_until(Clock::now() + patience, [&] {
    Greeting greeting;
    while (const auto peer = take(mailbox, greeting)) {
      heard[*peer] = true;
      presence.words[*peer + 1] = greeting.text.data();
      ++count;
    }
    return count == others;
  });
  for (std::size_t peer = 0; peer < others; ++peer) {
    if (heard[peer])
      post(mailbox, peer, Greeting::of(presence.complete ? kAllHere : kSomeMissing));
    else
      presence.missing.push_back(static_cast<int>(peer) + 1);
  }
  return presence;
}

Presence greet_first(Mailbox& mailbox, const std::string& own_word, std::chrono::milliseconds patience) {
  post(mailbox, 0, Greeting::of(own_word));
  Greeting answer;
  const bool answered =
      poll_until(Clock::now() + patience, [&] { return take(mailbox, answer).has_value(); });
  if (!answered) return {.complete = false, .missing = {0}};
  return {.complete = answer.text.data() == std::string_view(kAllHere)};
}

}  // namespace

Presence check_presence(const World& world, const std::string& word, std::chrono::milliseconds patience) {
  constexpr std::chrono::seconds kToAnswer{1};
  const GroupState& state = Internals::of(world.communicator());
  if (state.size == 1) return {.words = {word}};
  std::vector<int> peers(state.rank == 0 ? at(state.size) - 1 : 1);
  std::iota(peers.begin(), peers.end(), state.rank == 0 ? 1 : 0);
  const std::size_t num_peers = peers.size();
  std::unique_ptr<Mailbox> mailbox = state.backend->mailbox(std::move(peers), sizeof(Greeting));
  Presence presence = state.rank == 0 ? gather_words(*mailbox, num_peers, word, patience)
                                      : greet_first(*mailbox, word, patience + kToAnswer);
  const bool left = poll_until(Clock::now() + kToAnswer, [&] {
    for (std::size_t peer = 0; peer < num_peers; ++peer)
      if (!mailbox->has_left(peer)) return false;
    return true;
  });
  if (!left) (void)mailbox.release();  // the network still reads its memory
  return presence;
}

}  // namespace strata::comm
