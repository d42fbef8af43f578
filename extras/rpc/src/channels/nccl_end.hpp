// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <span>
#include <string>
#include <thread>

#include "channels/job_thread.hpp"
#include "strata/comm/device_exchange.hpp"

namespace strata::rpc {

/// Bounds what NCCL occupies of the GPUs of a process: the numbers of its routes that send and that receive
/// at a time. A sender takes its place only when it was accepted, so that it never keeps a place while it
/// waits for one on another rank.
struct TransferPlaces {
  static constexpr int kAtOnce = 2;
  std::counting_semaphore<> sends{kAtOnce}, receives{kAtOnce};
};

/// A rank's end of a device pipe, which may be given up by either end. Everything is used on the thread of
/// its jobs, except for give_up().
class NcclEnd {
 public:
  struct Setup {
    Device device;
    comm::DevicePipe::End end = comm::DevicePipe::End::sends;
    bool is_allowed = false;
    std::chrono::milliseconds timeout{60000};  ///< of each step
    std::string who;                           ///< this rank, for messages
    std::shared_ptr<TransferPlaces> places;
  };
  /// Its owner ends `jobs` before this.
  NcclEnd(Setup setup, const JobThread& jobs) : setup_(std::move(setup)), jobs_(jobs) {}

  bool is_usable() const { return setup_.is_allowed && !is_left_; }
  bool is_open() const { return pipe_ != nullptr; }
  void open(const std::string& id);
  /// One of the process's places, kept until the end of what this returns.
  std::shared_ptr<void> take_place();
  void transfer(std::span<const comm::DevicePipe::Part> parts);
  /// Aborts what is under way, and stays closed.
  void leave();

  /// Gives NCCL up for the other end's reason; what waits here ends with that as a CommError. On any thread.
  void give_up(const std::string& reason);

  /// Polls. Throws CommError if waiting has no point any more, because jobs are stopped, the other end has
  /// given NCCL up and this one has not left it, or the timeout is over.
  template <typename Ready>
  void wait_until(Ready&& ready) {
    begin_timeout();
    poll(ready);
  }
  /// The same without a timeout: for what ends in this process.
  template <typename Ready>
  void wait_patiently_until(Ready&& ready) {
    deadline_ = Clock::time_point::max();
    poll(ready);
  }

 private:
  using Clock = std::chrono::steady_clock;
  template <typename Ready>
  void poll(Ready&& ready) {
    for (int asked_times = 0; !ready(); ++asked_times) {
      check();
      rest(asked_times);
    }
  }

  void begin_timeout() { deadline_ = Clock::now() + setup_.timeout; }
  void check() const;
  static void rest(int asked_times);

  const Setup setup_;
  const JobThread& jobs_;
  std::unique_ptr<comm::DevicePipe> pipe_;
  bool is_left_ = false;
  Clock::time_point deadline_;
  mutable std::mutex mutex_;
  std::optional<std::string> given_up_;  // why
};

}  // namespace strata::rpc
