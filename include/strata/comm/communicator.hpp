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

/// An MPI communicator of one stage or purpose; an owner. Only one thread may use it at a time; different
/// communicators may be used by different threads at once (MPI_THREAD_MULTIPLE).
///
/// Counts are 64-bit: what exceeds an MPI int is sent in pieces. Every call throws CommError with MPI's text,
/// the rank and host. All calls but rank(), size() are collective over the communicator.
class Communicator {
 public:
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();  ///< frees nothing collectively; call close() for that

  int rank() const;
  int size() const;

  Communicator duplicate() const;
  Communicator split(int color, int key) const;
  void close();  ///< collective

  void barrier() const;

  /// Runs `work` on every rank and throws on all of them if one threw: its own exception where it threw;
  /// elsewhere, as an echo, that of the lowest rank that failed: OutOfMemory and InputError keep their type,
  /// others are a CommError; the message begins with that rank and its host. `work` must not be collective,
  /// or must fail on all ranks alike.
  void together(const std::function<void()>& work) const;
  void broadcast(void* data, Count bytes, int root) const;
  void broadcast(std::string& text, int root) const;  ///< of any length; `text` is the root's then
  std::vector<std::string> all_gather(const std::string& blob) const;  ///< small blobs, in order of rank
  std::vector<std::string> gather(const std::string& blob, int root) const;  ///< empty elsewhere than on root

  enum class Op { sum, min, max, bit_or };  ///< bit_or: of integers
  void all_reduce(std::span<float> values, Op op = Op::sum) const;
  void all_reduce(std::span<double> values, Op op = Op::sum) const;
  void all_reduce(std::span<std::int64_t> values, Op op = Op::sum) const;

  /// Sends send[r] bytes at send_data + (sum of the former) to rank r; receives recv[r] bytes likewise.
  /// Memory is bounded: nothing is staged. Pairs with nothing to say exchange no message.
  void all_to_all(const void* send_data, std::span<const Count> send_bytes, void* recv_data,
                  std::span<const Count> recv_bytes) const;
  /// What every rank will send me, given what I send.
  std::vector<Count> exchange_counts(std::span<const Count> send) const;

  /// Typed form: parcels[r] goes to rank r; returns what came, concatenated in order of rank, with its
  /// counts.
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
    received.values.resize(static_cast<std::size_t>(total));
    all_to_all(values.data(), send_bytes, received.values.data(), recv_bytes);
    return received;
  }

 private:
  friend class World;
  friend struct Internals;  // the sources of this module reach MPI's handle through it
  struct State;
  explicit Communicator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Initialises MPI with MPI_THREAD_MULTIPLE and finalises it; exactly one in a program, made in main before
/// any thread.
class World {
 public:
  World(int* argc, char*** argv);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Communicator& communicator() const;
  int rank() const { return communicator().rank(); }
  int size() const { return communicator().size(); }
  std::string host() const;

  /// Ends all ranks of the run with `exit_code`. Never returns.
  [[noreturn]] void abort(int exit_code) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::comm
