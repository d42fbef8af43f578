#include "reducer_nccl.hpp"

#include <fmt/format.h>
#include <nccl.h>

#include <chrono>
#include <source_location>
#include <thread>
#include <utility>

#include "mpi_state.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

using Where = std::source_location;

// A launch takes some ten microseconds, less than the shortest sleep; making a communicator takes a second.
constexpr int kQuickPolls = 1000;

/// A non-blocking NCCL communicator, an owner. Its calls start work and are then asked until it is under way,
/// so that a rank that fails meanwhile is an error here and not a call that never returns.
class NcclCommunicator {
 public:
  NcclCommunicator(const ncclUniqueId& id, int size, int rank, std::string who) : who_(std::move(who)) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    try {
      finish(ncclCommInitRankConfig(&handle_, size, id, rank, &config), "ncclCommInitRankConfig");
    } catch (...) {
      abort();
      throw;
    }
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator() { abort(); }

  ncclComm_t get() const { return handle_; }

  /// Waits until a call that returned `code` is done with its work on the host; throws CommError if it
  /// failed.
  void finish(ncclResult_t code, const char* call, Where where = Where::current()) const {
    for (int asked_times = 0; code == ncclInProgress; ++asked_times) {
      ncclResult_t state = ncclSuccess;
      const ncclResult_t asked = ncclCommGetAsyncError(handle_, &state);
      code = asked == ncclSuccess ? state : asked;
      if (code != ncclInProgress) break;
      if (asked_times < kQuickPolls) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    if (code != ncclSuccess) fail(code, call, where);
  }

  /// Ends all work of the communicator in order. Collective.
  void close() {
    if (!handle_) return;
    finish(ncclCommFinalize(handle_), "ncclCommFinalize");
    const ncclResult_t code = ncclCommDestroy(std::exchange(handle_, nullptr));
    if (code != ncclSuccess && code != ncclInProgress) fail(code, "ncclCommDestroy", Where::current());
  }

 private:
  [[noreturn]] void fail(ncclResult_t code, const char* call, Where where) const {
    throw CommError(fmt::format("{} failed: {}: {} ({})", call, ncclGetErrorString(code),
                                ncclGetLastError(handle_), who_),
                    "NCCL_DEBUG=INFO in the environment makes NCCL say more.", where);
  }
  void abort() noexcept {
    if (handle_) ncclCommAbort(std::exchange(handle_, nullptr));
  }

  ncclComm_t handle_ = nullptr;
  std::string who_;
};

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

class NcclReducer final : public AllReducer {
 public:
  NcclReducer(const Communicator& world, Device device)
      : device_(device), nccl_(shared_id(world), world.size(), world.rank(), Internals::of(world).who()) {}

  void sum(float* data, Count count, const cuda::Stream& stream) override {
    if (count == 0) return;
    const cuda::DeviceGuard guard(device_);
    nccl_.finish(ncclAllReduce(data, data, static_cast<std::size_t>(count), ncclFloat32, ncclSum, nccl_.get(),
                               stream.get()),
                 "ncclAllReduce");
  }
  const char* name() const override { return "nccl"; }
  void close() override {
    const cuda::DeviceGuard guard(device_);
    nccl_.close();
  }

 private:
  Device device_;
  NcclCommunicator nccl_;
};

}  // namespace

std::unique_ptr<AllReducer> make_nccl_reducer(const Communicator& world, Device device) {
  const cuda::DeviceGuard guard(device);  // NCCL binds a communicator to the device that is current
  return std::make_unique<NcclReducer>(world, device);
}

}  // namespace strata::comm
