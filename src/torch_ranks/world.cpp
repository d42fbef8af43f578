// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "arrival.hpp"
#include "environment.hpp"
#include "group.hpp"
#include "keepalive.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"

namespace strata::torch_ranks {
namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(at(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// The group of all ranks; its end is the end of the run.
class World final : public Group {
 public:
  World(const std::shared_ptr<const Run>& run, const Options& options)
      : Group(run, "world", all_ranks(run->size())) {
    if (options.ends_with_others) keepalive_.emplace(run);
  }

  void close() override {
    if (!run().is_own_process()) return;
    Group::close();
    if (keepalive_) keepalive_->close();
    leave_store();
  }

 private:
  /// The rank that keeps the store stays until the others need it no more.
  void leave_store() const {
    constexpr const char* kLeft = "left";
    const Run::Connection store = run().connect();
    std::int64_t left = store->add(kLeft, 1);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (run().keeps_store() && left < size() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      left = store->add(kLeft, 0);
    }
  }

  std::optional<Keepalive> keepalive_;
};

std::shared_ptr<comm::Backend> backend_of(const Environment& environment, const Options& options) {
  if (environment.world_size == 1) return comm::solo_backend();
  return std::make_shared<World>(std::make_shared<const Run>(environment, options.patience), options);
}

}  // namespace

std::shared_ptr<comm::Backend> backend(const Options& options) {
  return backend_of(read_environment(), options);
}

MeetingPlace open_meeting_place() {
  static std::atomic<std::int64_t> number{0};
  return {.host = comm::host_name(), .port = open_port(), .number = number++};
}

std::shared_ptr<comm::Backend> backend_at(const MeetingPlace& place, int rank, int size,
                                          const Options& options) {
  Environment environment;
  environment.rank = rank;
  environment.world_size = size;
  environment.address = place.host == comm::host_name() ? "127.0.0.1" : place.host;
  environment.port = place.port;
  environment.store_is_open = true;
  environment.attempt = std::to_string(place.number);
  return backend_of(environment, options);
}

std::shared_ptr<comm::Backend> backend_of_launcher(int* argc, char*** argv) {
  switch (comm::find_launcher()) {
    case comm::Launcher::mpi:
      return comm::mpi_backend(argc, argv);
    case comm::Launcher::torch:
      return backend();
    case comm::Launcher::none:
      break;
  }
  return comm::solo_backend();
}

}  // namespace strata::torch_ranks
