// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/util/types.hpp"

namespace strata::rpc {

/// Messages of any size between all pairs of ranks, which may arrive at any time: for calls, where
/// collectives know in advance who sends what.
///
/// Every pair of ranks has a TCP connection of its own, whatever started the ranks, because neither MPI nor
/// gloo wakes a thread when a message comes, and neither reports which rank is gone. A thread per rank reads,
/// and writes what send() cannot hand over at once; it sleeps while there is nothing to do, after it has
/// looked for `busy_poll` since the last message that came. Messages from one rank to another arrive in the
/// order of send(). A rank is lost when its process ends or its host does not answer for ten seconds, but not
/// while it is stopped or reads nothing. An owner; thread safe except for its end.
class MessageLinks {
 public:
  /// A message: a head that is read first, and bulk that then goes to memory of the receiver's choice.
  struct Message {
    std::string head;                              ///< less than 4 GiB
    std::vector<std::span<const std::byte>> bulk;  ///< of any size, sent without a copy
    std::shared_ptr<const void> memory;            ///< keeps the bulk valid until it is sent
  };
  /// Memory for the bulk of a message; as many bytes as the message has.
  struct BulkMemory {
    std::vector<std::span<std::byte>> bulk;
    std::shared_ptr<void> memory;  ///< not null
  };
  /// Called on the thread of the links: it must not wait, and must not throw except where noted.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    /// Provides the memory of a message's bulk. If it throws or gives too few bytes, the bulk is dropped.
    virtual BulkMemory memory_for_bulk(int peer, const std::string& head) = 0;
    /// All of a message is here. `memory` is that of memory_for_bulk(); null if the bulk was dropped. If it
    /// throws, the connection to this rank is given up, and what was thrown becomes the reason.
    virtual void arrived(int peer, std::string head, std::shared_ptr<void> memory) = 0;
    /// No message will come from this rank or reach it any more. `reason` is empty if it closed its links.
    virtual void lost(int peer, const std::string& reason) = 0;
  };

  /// Connects all ranks. Collective. Hosts are reached at the addresses of their network interfaces, or of
  /// those that GLOO_SOCKET_IFNAME lists. Throws CommError on all ranks if two cannot be connected.
  explicit MessageLinks(const comm::Communicator& communicator, std::chrono::nanoseconds busy_poll = {});
  ~MessageLinks();  ///< as close()
  MessageLinks(const MessageLinks&) = delete;
  MessageLinks& operator=(const MessageLinks&) = delete;

  /// Begins to receive. `receiver` must outlive the links. Called once.
  void start(Receiver& receiver);
  /// Sends to another rank. Does not wait, not even for threads that send to other ranks. What is sent to a
  /// rank that is lost, or after close(), is dropped.
  void send(int peer, Message message);
  /// Runs `work` on the thread of the links, soon, after what was given to send() and post() before.
  void post(std::function<void()> work);
  /// Closes the connection to a rank whose messages cannot be used, as if it were lost. On the thread of the
  /// links.
  void give_up(int peer, const std::string& reason);
  /// Calls `work` on the thread of the links once per period, until it returns false.
  void repeat(std::chrono::milliseconds period, std::function<bool()> work);
  /// Sends what was given to send(), announces the end, and ends the thread. Not collective.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::rpc
