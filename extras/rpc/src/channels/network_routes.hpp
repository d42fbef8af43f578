// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "channels/gpu_routes.hpp"
#include "channels/network_ends.hpp"

namespace strata::rpc {

/// The ends of network routes that lie in this process. Thread safe.
class NetworkRoutes {
 public:
  struct Plan {
    GpuRoute route;
    bool uses_nccl = false;
  };
  struct Setup {
    std::vector<Plan> plans;  ///< from and to this rank
    int rank = 0;
    std::chrono::milliseconds timeout{60000};       ///< of each step of a transfer by NCCL
    std::chrono::nanoseconds busy_poll{};           ///< of each end's thread
    std::function<std::string(int rank)> describe;  ///< its name and host
    std::function<RouteOutlet(int peer, comm::DevicePipe::End own)> outlet_to;
  };
  explicit NetworkRoutes(const Setup& setup);
  ~NetworkRoutes() { stop(); }
  NetworkRoutes(const NetworkRoutes&) = delete;
  NetworkRoutes& operator=(const NetworkRoutes&) = delete;

  std::optional<std::uint32_t> find(int peer, DevicePair devices) const;  ///< devices: this rank's and its
  /// Throws CommError if there is none.
  NetworkSender& to(int peer, std::uint32_t number) const;
  NetworkReceiver& from(int peer, std::uint32_t number) const;
  void heard(int peer, const RouteNote& note);  ///< any but an offer
  void lost(int peer);                          ///< ends what is under way with it; does not wait
  /// Ends what is under way, so that nothing calls an outlet any more. Waits for threads.
  void stop();

 private:
  using Key = std::pair<int, std::uint32_t>;  // peer, number
  std::vector<GpuRoute> from_here_;
  std::map<Key, std::unique_ptr<NetworkSender>> senders_;
  std::map<Key, std::unique_ptr<NetworkReceiver>> receivers_;
};

}  // namespace strata::rpc
