// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "arrival.hpp"
#include "c10d.hpp"
#include "environment.hpp"
#include "strata/comm/backend.hpp"

namespace strata::torch_ranks {

/// What all groups of a run share: who is there, the store, and the end. Thread safe.
class Run {
 public:
  /// Waits until all ranks have come.
  Run(const Environment& environment, std::chrono::milliseconds patience);

  const comm::Backend::Member& self() const { return self_; }
  int size() const { return environment_.world_size; }
  const std::vector<Arrival>& ranks() const { return ranks_; }
  std::string name_of(int world_rank) const;  ///< "rank 3 (host gpu-07)"
  bool keeps_store() const { return environment_.rank == 0 && !environment_.launcher_has_store; }

  /// A connection to the store for one thread at a time. Who ends one gives it back; there are few,
  /// because a store needs long to accept many.
  class Connection {
   public:
    Connection(const Run& run, StorePtr store) : run_(&run), store_(std::move(store)) {}
    Connection(Connection&& other) noexcept : run_(other.run_), store_(std::move(other.store_)) {}
    Connection& operator=(Connection&&) = delete;
    ~Connection();
    c10d::Store* operator->() const { return store_.get(); }
    const StorePtr& get() const { return store_; }

   private:
    const Run* run_;
    StorePtr store_;
  };
  Connection connect() const;
  /// Connects the ranks of a group, all of which call this now. `key` names the group.
  GlooPtr connect_group(const std::string& key, int rank, int size) const;

  /// Returns what `collective` returns, a Work of gloo that has begun. Groups of several threads begin theirs
  /// one after the other, because torch's flight recorder, where it is on, is not thread safe.
  template <typename Collective>
  auto begin(Collective&& collective) const {
    const std::lock_guard lock(begin_mutex_);
    return collective();
  }

  /// Throws CommError in a process that was forked after the run began: its threads are not there.
  void check_process() const;
  bool is_own_process() const;

  /// Ends all ranks.
  [[noreturn]] void abort(int exit_code) const;

 private:
  std::shared_ptr<::gloo::transport::Device> make_device() const;

  Environment environment_;
  pid_t process_;
  StorePtr store_;
  mutable std::mutex begin_mutex_, connections_mutex_;
  mutable std::vector<StorePtr> free_connections_;
  std::vector<Arrival> ranks_;
  comm::Backend::Member self_;
};

/// The store's key for the end of the run: kEnd, or kAbort and an exit code.
inline constexpr const char* kVerdictKey = "verdict";
inline constexpr const char* kEnd = "end";
inline constexpr const char* kAbort = "abort ";

}  // namespace strata::torch_ranks
