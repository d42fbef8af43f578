// SPDX-License-Identifier: Apache-2.0
#include "channels/nccl_end.hpp"

#include <utility>

#include "strata/util/error.hpp"

namespace strata::rpc {

void NcclEnd::open(const std::string& id) {
  constexpr std::chrono::seconds kOpenPatience{20};  // takes about one, and the first call still waits
  deadline_ = Clock::now() + kOpenPatience;
  pipe_ = comm::open_device_pipe(
      {.id = id, .end = setup_.end, .device = setup_.device, .who = setup_.who, .while_waiting = [this] {
         check();
       }});
}

std::shared_ptr<void> NcclEnd::take_place() {
  TransferPlaces& places = *setup_.places;
  auto& taken = setup_.end == comm::DevicePipe::End::sends ? places.sends : places.receives;
  wait_patiently_until([&] { return taken.try_acquire(); });
  return {&taken, [places = setup_.places](auto* place) { place->release(); }};
}

void NcclEnd::transfer(std::span<const comm::DevicePipe::Part> parts) {
  begin_timeout();
  pipe_->transfer(parts);
}

void NcclEnd::leave() {
  is_left_ = true;
  pipe_.reset();
}

void NcclEnd::give_up(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  given_up_ = reason;
}

void NcclEnd::check() const {
  if (jobs_.is_stopped()) throw CommError("the route between two GPUs has ended");
  if (Clock::now() > deadline_) throw CommError("NCCL was not done in time");
  const std::lock_guard lock(mutex_);
  if (given_up_ && !is_left_) throw CommError(*given_up_);
}

void NcclEnd::rest(int asked_times) {
  constexpr int kQuickPolls = 1000;
  if (asked_times < kQuickPolls)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

}  // namespace strata::rpc
