// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "channels/gpu_ends.hpp"
#include "strata/comm/machine.hpp"
#include "strata/rpc/device_map.hpp"

namespace strata::rpc {

/// A route from a GPU of one rank to one of another, each as its own process numbers them.
struct GpuRoute {
  int sender = 0, receiver = 0;  ///< ranks
  std::uint32_t number = 0;      ///< among those of the two
  DevicePair devices;            ///< the sender's and the receiver's
};

/// All that calls between these ranks can need: arguments take the map of the caller, results its inverse.
/// In the same order wherever this is called. A pure function.
std::vector<GpuRoute> gpu_routes_between(std::span<const int> ranks, std::span<const AgentFacts> agents);

/// Whether both ends lie on one GPU, which NCCL does not join with itself. Numbers do not suffice: each
/// process may see other GPUs under them (CUDA_VISIBLE_DEVICES). A pure function.
bool joins_one_gpu(const GpuRoute& route, std::span<const AgentFacts> agents);

/// The ends of routes that lie in this process.
class GpuRoutes {
 public:
  /// The memory that tensors pass through.
  enum class Through : std::uint8_t { receivers_gpu, pinned_memory };
  struct Wanted {
    std::vector<GpuRoute> routes;  ///< of the machine, the same on all of its ranks
    int rank = 0;                  ///< this one, as the routes have it
    Through through = Through::receivers_gpu;
    std::size_t landing_bytes = 0;  ///< of memory for all routes to a receiver
  };
  /// Opens what can be opened; warns of the rest in one line. Collective over the machine.
  GpuRoutes(const comm::Machine& machine, const Wanted& wanted);

  /// The ranks with routes from this rank's GPUs to theirs, and back.
  const std::vector<int>& peers() const { return peers_; }
  std::optional<std::uint32_t> find(int peer, DevicePair devices) const;  ///< devices: this rank's and its
  /// The sender's end of a route; null if there is none.
  std::shared_ptr<GpuSender> to(int peer, std::uint32_t number) const {
    return end_of(senders_, peer, number);
  }
  std::shared_ptr<GpuReceiver> from(int peer, std::uint32_t number) const {
    return end_of(receivers_, peer, number);
  }

  void lost(int peer);  ///< its process is gone
  /// A lost peer for which a GPU waits for ever. A while after a loss it is known; each is looked at once.
  std::optional<int> awaited_lost_peer();
  /// Closes the routes at the graceful end of all ranks, so that memory can be freed as soon as the last
  /// tensor there dies. Otherwise it stays until the process ends, because others may still write to it.
  /// Waits for the others.
  void close();

 private:
  using Key = std::pair<int, std::uint32_t>;  // peer, number
  template <typename End>
  static std::shared_ptr<End> end_of(const std::map<Key, std::shared_ptr<End>>& ends, int peer,
                                     std::uint32_t number) {
    const auto found = ends.find({peer, number});
    return found == ends.end() ? nullptr : found->second;
  }
  /// A rank's offer of memory for a route to it.
  struct Offer {
    int sender = 0, receiver = 0;
    std::uint32_t number = 0;
    std::string handle = {};   ///< of the memory, or of an event; empty: there is none
    std::string failure = {};  ///< why
    template <typename Archive>
    void serialize(Archive& archive) {
      archive(sender, receiver, number, handle, failure);
    }
  };
  /// A route that cannot be opened.
  struct Failure {
    int sender = 0, receiver = 0;
    std::string reason;
    template <typename Archive>
    void serialize(Archive& archive) {
      archive(sender, receiver, reason);
    }
  };
  /// The memory of a route, which both ends have.
  struct Place {
    GpuLayout layout;
    SharedBoard board;
    RouteMemory pinned = {};  ///< null: the memory is the receiver's
  };
  static std::vector<Place> make_places(const comm::Machine& machine, const Wanted& wanted);
  Offer make_receiver(const GpuRoute& route, const Place& place);
  std::string make_sender(const GpuRoute& route, const Offer& offer, const Place& place);
  void drop(const comm::Machine& machine, int rank, std::span<const Failure> failures);

  std::map<Key, std::shared_ptr<GpuSender>> senders_;
  std::map<Key, std::shared_ptr<GpuReceiver>> receivers_;
  std::map<int, std::chrono::steady_clock::time_point> lost_;  // when
  std::vector<cuda::IpcEvent> samples_;                        // for others to open, while routes are made
  std::vector<GpuRoute> from_here_;
  std::vector<int> peers_;
};

}  // namespace strata::rpc
