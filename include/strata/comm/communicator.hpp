// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "strata/util/types.hpp"

namespace strata::comm {

class Backend;

/// Ranks that exchange messages for one stage or purpose, over whatever started them (backend.hpp); an owner.
/// Only one thread at a time may use it, but different threads may use different communicators at once.
///
/// Counts are 64-bit: what MPI cannot count is sent in pieces. Every call throws CommError with the backend's
/// text, the rank and the host. All calls except rank() and size() are collective over the communicator.
class Communicator {
 public:
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();  ///< does not free the communicator, because that is collective: call close()

  int rank() const;
  int size() const;

  Communicator duplicate() const;
  Communicator split(int color, int key) const;
  void close();  ///< collective

  void barrier() const;

  /// Runs `work` on every rank. If it throws on one rank, all ranks throw. A rank that failed itself rethrows
  /// its own exception. The others throw an echo of the lowest rank that failed: OutOfMemory and InputError
  /// keep their type, out_of_range becomes InputError, others CommError; messages begin with rank and host.
  /// `work` must not be collective, or must fail on all ranks alike.
  void together(const std::function<void()>& work) const;
  void broadcast(void* data, Count bytes, int root) const;
  void broadcast(std::string& text, int root) const;  ///< of any length; all ranks get the root's text
  std::vector<std::string> all_gather(const std::string& blob) const;  ///< small blobs, in order of rank
  /// Returns the blobs in order of rank on `root`, nothing on others.
  std::vector<std::string> gather(const std::string& blob, int root) const;

  enum class Op { sum, min, max, bit_or };  ///< bit_or: only of integers
  void all_reduce(std::span<float> values, Op op = Op::sum) const;
  void all_reduce(std::span<double> values, Op op = Op::sum) const;
  void all_reduce(std::span<std::int64_t> values, Op op = Op::sum) const;

  /// Sends send_bytes[r] bytes to every rank r and receives recv_bytes[r] bytes from it. Both buffers are in
  /// order of rank without gaps. Nothing is staged, so memory is bounded. A pair of ranks without bytes
  /// exchanges no message.
  void all_to_all(const void* send_data, std::span<const Count> send_bytes, void* recv_data,
                  std::span<const Count> recv_bytes) const;
  /// Passes send[r], how much this rank will send to rank r, to every r; returns how much each sends to it.
  std::vector<Count> exchange_counts(std::span<const Count> send) const;

  /// Typed form: counts[r] of the values, in order of rank, go to rank r. Returns the received values in
  /// order of rank, and how many came from each rank.
  template <typename T>
  struct Received {
    std::vector<T> values;
    std::vector<Count> counts;
  };
  template <typename T>
  Received<T> all_to_all(std::span<const T> values, std::span<const Count> counts) const {
    static_assert(std::is_trivially_copyable_v<T>);
    Received<T> received{{}, exchange_counts(counts)};
    std::vector<Count> send_bytes, recv_bytes;
    Count total = 0;
    for (const Count c : counts) send_bytes.push_back(c * static_cast<Count>(sizeof(T)));
    for (const Count c : received.counts) recv_bytes.push_back(c * static_cast<Count>(sizeof(T))), total += c;
    received.values.resize(at(total));
    all_to_all(values.data(), send_bytes, received.values.data(), recv_bytes);
    return received;
  }

 private:
  friend class World;
  friend struct Internals;  // gives the sources of this module the backend
  struct State;
  explicit Communicator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// All ranks of the run. A program has exactly one, made in main before any thread starts.
class World {
 public:
  World(int* argc, char*** argv);  ///< over backend_of_program() of backend.hpp, until the end
  /// Makes the world over a backend of backend.hpp; it owns the first group.
  explicit World(std::shared_ptr<Backend> backend);
  ~World();  ///< waits for all ranks, except while an exception is on its way
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Communicator& communicator() const;
  int rank() const { return communicator().rank(); }
  int size() const { return communicator().size(); }
  std::string host() const;
  const char* backend() const;  ///< "mpi", "torch", "solo"

  /// Ends all ranks of the run with `exit_code`. Never returns.
  [[noreturn]] void abort(int exit_code) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Identities of processes that have the same host name, or share a host without sharing all of it. Each
// is one line. Thread safe.

std::string memory_identity();   ///< the same for processes that share memory
std::string network_identity();  ///< the same for processes that reach each other over the loopback interface

/// Addresses at which other hosts may reach this one, IPv4 before IPv6: of the network interfaces that
/// GLOO_SOCKET_IFNAME lists, else of all that are up, except for the loopback interface.
std::vector<std::string> network_addresses();

}  // namespace strata::comm
