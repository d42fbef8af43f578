// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "strata/comm/device_exchange.hpp"
#include "strata/comm/reducer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::comm {
namespace {

class OrderedReducer final : public AllReducer {
 public:
  OrderedReducer(std::unique_ptr<AllReducer> reducer, LaunchOrder& order)
      : reducer_(std::move(reducer)), order_(order) {}

  void sum(float* data, Count count, const cuda::Stream& stream) override {
    order_.begin_reduction(stream);
    reducer_->sum(data, count, stream);
    order_.end_reduction(stream);
  }
  const char* name() const override { return reducer_->name(); }
  void close() override { reducer_->close(); }

 private:
  std::unique_ptr<AllReducer> reducer_;
  LaunchOrder& order_;
};

}  // namespace

template <typename Ready>
void LaunchOrder::wait_until(Ready&& ready, const cuda::Stream& stream) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return open_ || ready(); });
  if (!run_.overlap) stream.wait(last_);
}

void LaunchOrder::launched(const cuda::Stream& stream) {
  const std::lock_guard lock(mutex_);
  last_.record(stream);
}

void LaunchOrder::begin(const Run& run) {
  const std::lock_guard lock(mutex_);
  run_ = run;
  exchanged_ = {};
  if (!run.samples) exchanged_[index(Exchange::sample)] = run.steps;
  if (!run.fetches) exchanged_[index(Exchange::fetch)] = run.steps;
  ended_ = 0;
  open_ = false;
}

Count LaunchOrder::steps_ahead(Exchange exchange) const {
  if (!run_.ahead) return 0;
  return exchange == Exchange::sample ? run_.sampled + run_.gathered : run_.gathered;
}

int LaunchOrder::lanes(Exchange exchange) const {
  return exchange == Exchange::sample ? run_.sampled : run_.gathered;
}

/// Slot k of the order is S(k + A + G), F(k + G), R(k), or those of them that there are.
bool LaunchOrder::launched_for(Exchange exchange, Count slot) const {
  return exchanged_[index(exchange)] >= std::min(slot + steps_ahead(exchange) + 1, run_.steps);
}

bool LaunchOrder::is_turn(const Turn& turn) const {
  const auto& [exchange, lane] = turn;
  const Count step = exchanged_[index(exchange)], slot = step - steps_ahead(exchange);
  if (step % lanes(exchange) != lane) return false;
  if (ended_ < slot) return false;
  return exchange == Exchange::sample ? launched_for(Exchange::fetch, slot - 1)
                                      : launched_for(Exchange::sample, slot);
}

void LaunchOrder::begin_exchange(const Turn& turn, const cuda::Stream& stream) {
  wait_until([&] { return is_turn(turn); }, stream);
}

void LaunchOrder::end_exchange(const Turn& turn, const cuda::Stream& stream) {
  launched(stream);
  {
    const std::lock_guard lock(mutex_);
    ++exchanged_[index(turn.exchange)];
  }
  changed_.notify_all();
}

void LaunchOrder::begin_reduction(const cuda::Stream& stream) {
  wait_until(
      [this] { return launched_for(Exchange::fetch, ended_) && launched_for(Exchange::sample, ended_); },
      stream);
}

void LaunchOrder::end_reduction(const cuda::Stream& stream) { launched(stream); }

void LaunchOrder::end_step() {
  {
    const std::lock_guard lock(mutex_);
    ++ended_;
  }
  changed_.notify_all();
}

void LaunchOrder::finish(Count steps) {
  {
    const std::lock_guard lock(mutex_);
    run_.steps = std::min(run_.steps, steps);
    ended_ = run_.steps;
  }
  changed_.notify_all();
}

void LaunchOrder::open() {
  {
    const std::lock_guard lock(mutex_);
    open_ = true;
  }
  changed_.notify_all();
}

int blocks_that_fit(Device device, int communicators) {
  return (cuda::num_multiprocessors(device.index) - DevicePipe::kMostBlocks) / communicators;
}

std::unique_ptr<AllReducer> in_order(std::unique_ptr<AllReducer> reducer, LaunchOrder& order) {
  return std::make_unique<OrderedReducer>(std::move(reducer), order);
}

}  // namespace strata::comm
