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

void LaunchOrder::begin(Count steps, Count lookahead) {
  const std::lock_guard lock(mutex_);
  num_steps_ = steps;
  lookahead_ = lookahead;
  exchanged_ = ended_ = 0;
  open_ = false;
}

void LaunchOrder::begin_exchange(const cuda::Stream& stream) {
  wait_until([this] { return exchanged_ <= ended_ + lookahead_; }, stream);
}

void LaunchOrder::end_exchange(const cuda::Stream& stream) {
  launched(stream);
  {
    const std::lock_guard lock(mutex_);
    ++exchanged_;
  }
  changed_.notify_all();
}

void LaunchOrder::begin_reduction(const cuda::Stream& stream) {
  wait_until([this] { return exchanged_ >= std::min(ended_ + 1 + lookahead_, num_steps_); }, stream);
}

void LaunchOrder::end_reduction(const cuda::Stream& stream) { launched(stream); }

void LaunchOrder::end_step() {
  {
    const std::lock_guard lock(mutex_);
    ++ended_;
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
