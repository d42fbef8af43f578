// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl_communicator.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "state.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

// A launch takes about ten microseconds, less than the shortest sleep; making a communicator takes a second.
constexpr int kQuickPolls = 1000;

void rest(int asked_times) {
  if (asked_times < kQuickPolls) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

ncclUniqueId shared_id(const Communicator& world) {
  ncclUniqueId id{};
  world.together([&] {
    if (world.rank() > 0) return;
    const ncclResult_t code = ncclGetUniqueId(&id);
    if (code != ncclSuccess)
      throw CommError(fmt::format("ncclGetUniqueId failed: {}", ncclGetErrorString(code)));
  });
  world.broadcast(&id, sizeof(id), 0);
  return id;
}

}  // namespace

NcclCommunicator::NcclCommunicator(const Communicator& world, Device device, int most_blocks)
    : NcclCommunicator({.id = shared_id(world),
                        .rank = world.rank(),
                        .size = world.size(),
                        .who = Internals::of(world).who(),
                        .most_blocks = most_blocks > 0 ? most_blocks : NCCL_CONFIG_UNDEF_INT},
                       device) {}

NcclCommunicator::NcclCommunicator(const Member& member, Device device)
    : who_(member.who), while_waiting_(member.while_waiting) {
  const cuda::DeviceGuard guard(device);  // NCCL binds a communicator to the current device
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = member.most_blocks;
  try {
    finish(ncclCommInitRankConfig(&handle_, member.size, member.id, member.rank, &config),
           "ncclCommInitRankConfig");
  } catch (...) {
    abort();
    throw;
  }
}

void NcclCommunicator::finish(ncclResult_t code, const char* call, std::source_location where) const {
  for (int asked_times = 0; code == ncclInProgress; ++asked_times) {
    code = state();
    if (code != ncclInProgress) break;
    while_waiting_();
    rest(asked_times);
  }
  if (code != ncclSuccess) fail(code, call, where);
}

void NcclCommunicator::finish_when(const std::function<bool()>& is_done, const char* call,
                                   std::source_location where) const {
  for (int asked_times = 0; !is_done(); ++asked_times) {
    const ncclResult_t code = state();
    if (code != ncclSuccess && code != ncclInProgress) fail(code, call, where);
    while_waiting_();
    rest(asked_times);
  }
}

ncclResult_t NcclCommunicator::state() const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(handle_, &state);
  return asked == ncclSuccess ? state : asked;
}

void NcclCommunicator::close() {
  if (!handle_) return;
  finish(ncclCommFinalize(handle_), "ncclCommFinalize");
  const ncclResult_t code = ncclCommDestroy(std::exchange(handle_, nullptr));
  if (code != ncclSuccess && code != ncclInProgress)
    fail(code, "ncclCommDestroy", std::source_location::current());
}

void NcclCommunicator::fail(ncclResult_t code, const char* call, std::source_location where) const {
  throw CommError(
      fmt::format("{} failed: {}: {} ({})", call, ncclGetErrorString(code), ncclGetLastError(handle_), who_),
      "NCCL_DEBUG=INFO in the environment makes NCCL log more.", where);
}

void NcclCommunicator::abort() noexcept {
  if (handle_) ncclCommAbort(std::exchange(handle_, nullptr));
}

}  // namespace strata::comm
