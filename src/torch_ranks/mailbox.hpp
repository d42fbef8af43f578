// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "c10d.hpp"
#include "run.hpp"
#include "strata/comm/backend.hpp"

namespace strata::torch_ranks {

/// Small messages through the store: each pair of ranks has a place for the newest one. gloo cannot check
/// whether a message has come without waiting for it.
///
/// A thread of its own calls the store, because a store whose process is stopped never answers. It makes
/// a round when a message was posted or asked for.
class StoreMailbox final : public comm::Backend::Mailbox {
 public:
  struct Between {
    std::string group;  ///< its key
    int rank;
    std::vector<int> peers;
  };
  /// Makes the places for this rank's messages. Those of its peers must exist before it takes anything.
  StoreMailbox(Run::Connection store, const Between& between, std::size_t bytes);
  ~StoreMailbox() override;

  bool post(std::size_t p, std::span<const std::byte> message) override;
  std::optional<std::size_t> take(std::span<std::byte> message) override;
  bool has_left(std::size_t p) override;

 private:
  using Bytes = std::vector<std::uint8_t>;
  struct Incoming {
    std::uint64_t number = 0;  ///< of the newest message
    bool fresh = false;        ///< not taken yet
    Bytes message;
  };
  void serve();
  void write(std::vector<std::string> keys, std::vector<Bytes> values);
  void read();

  const Run::Connection store_;  // of the thread, once it runs
  const std::size_t bytes_;
  std::vector<std::string> send_keys_, receive_keys_;

  std::mutex mutex_;  // guards all below
  std::condition_variable wanted_;
  bool round_wanted_ = false, ends_ = false;
  std::exception_ptr error_;
  std::vector<std::uint64_t> numbers_;          // of the last message to each peer
  std::vector<std::optional<Bytes>> outgoing_;  // until they are in the store
  std::vector<Incoming> incoming_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace strata::torch_ranks
