// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/launch_order.hpp"

#include <algorithm>
#include <utility>

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
  stream.wait(last_);
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
  return exchange == Exchange::sample ? 2 : 1;
}

/// Slot k of the order is S(k + 2), F(k + 1), R(k), or those of them that there are.
bool LaunchOrder::launched_for(Exchange exchange, Count slot) const {
  return exchanged_[index(exchange)] >= std::min(slot + steps_ahead(exchange) + 1, run_.steps);
}

bool LaunchOrder::is_turn(Exchange exchange) const {
  const Count slot = exchanged_[index(exchange)] - steps_ahead(exchange);
  if (ended_ < slot) return false;
  return exchange == Exchange::sample ? launched_for(Exchange::fetch, slot - 1)
                                      : launched_for(Exchange::sample, slot);
}

void LaunchOrder::begin_exchange(Exchange exchange, const cuda::Stream& stream) {
  wait_until([this, exchange] { return is_turn(exchange); }, stream);
}

void LaunchOrder::end_exchange(Exchange exchange, const cuda::Stream& stream) {
  launched(stream);
  {
    const std::lock_guard lock(mutex_);
    ++exchanged_[index(exchange)];
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

std::unique_ptr<AllReducer> in_order(std::unique_ptr<AllReducer> reducer, LaunchOrder& order) {
  return std::make_unique<OrderedReducer>(std::move(reducer), order);
}

}  // namespace strata::comm
