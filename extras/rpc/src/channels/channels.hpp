// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "channels/gpu_routes.hpp"
#include "channels/landing_zone.hpp"
#include "channels/network_routes.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/rpc/agent.hpp"
#include "strata/tensor/host_array.hpp"

namespace strata::rpc {

/// Memory that the ranks of a machine share. Each sends from a zone of its own: rooms where tensors stay
/// until their end, and per receiver a few slots through which larger ones pass in pieces.
///
///     | zone of rank 0                                                | zone of rank 1 ...
///     | rooms                    | slots to rank 0 | slots to rank 1  |
class SharedZones {
 public:
  static constexpr std::uint32_t kSlots = 4;  ///< per receiver

  /// Collective over the machine. Throws OutOfMemory and IoError on all of its ranks.
  SharedZones(const comm::Machine& machine, std::size_t landing_bytes);
  /// The least size for a machine with `ranks` ranks.
  static std::size_t least_landing_bytes(int ranks);

  LandingZone& own() { return *own_; }
  std::span<std::byte> rooms(int rank) const;  ///< of the machine
  std::size_t piece_bytes() const { return piece_bytes_; }
  std::span<std::byte> slot(int sender, int receiver, std::uint32_t index) const;

 private:
  const std::size_t ranks_, zone_bytes_, piece_bytes_;
  tensor::HostRegion region_;
  std::optional<LandingZone> own_;
};

/// A room for a tensor on its way to another rank. It is the receiver's once it was handed over.
class Room {
 public:
  Room(std::shared_ptr<SharedZones> zones, std::span<std::byte> rooms, std::size_t offset)
      : zones_(std::move(zones)), rooms_(rooms), offset_(offset) {}
  ~Room() {
    if (!handed_over_) LandingZone::give_back(rooms_, offset_);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  std::byte* data() const { return rooms_.data() + offset_; }
  /// Returns the offset by which the receiver finds it.
  std::size_t hand_over() {
    handed_over_ = true;
    return offset_;
  }

 private:
  const std::shared_ptr<SharedZones> zones_;  // owner of the memory
  const std::span<std::byte> rooms_;
  const std::size_t offset_;
  bool handed_over_ = false;
};

/// A part of a tensor that lies in a slot: of its sender in host memory, or of its receiver on a GPU.
struct Piece {
  static constexpr std::int64_t kOnHost = -1;
  std::uint64_t transfer = 0;  ///< Head::transfer of the tensor's message
  std::uint32_t tensor = 0;    ///< its place in the message
  std::uint32_t slot = 0;
  std::uint64_t offset = 0, bytes = 0;
  std::int64_t gpu_route = kOnHost;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(transfer, tensor, slot, offset, bytes, gpu_route);
  }
  std::uint32_t route() const { return static_cast<std::uint32_t>(gpu_route); }  ///< on a GPU
};

/// The ways that tensors take to each rank, and counters of what went along. Thread safe.
class Channels {
 public:
  /// Smaller tensors travel inside the message, because a room costs more than their copy.
  static constexpr std::size_t kLeastBytes = 4096;

  /// Collective. Throws InputError on all ranks if two have no channel in common.
  Channels(const comm::Communicator& communicator, const Options& options,
           const std::vector<AgentFacts>& agents);

  int cores() const { return cores_; }  ///< of this rank; see comm::Resources

  /// The channel of tensors of `bytes` bytes in host memory to another rank.
  Channel to(int peer, std::size_t bytes) const;
  /// Takes a room; null if there is none now.
  std::shared_ptr<Room> room(int peer, std::size_t bytes);
  /// A tensor's memory in the zone of its sender, given back at its end. Throws CommError if it lies outside.
  std::shared_ptr<std::byte> landed(int sender, std::size_t offset, std::size_t bytes) const;

  /// Smaller tensors of a GPU travel inside the message where their ways need notes beside it, because their
  /// copy takes less.
  static constexpr std::size_t kLeastNotedBytes = std::size_t{128} << 10;
  /// The number of a way from this rank's GPU to the peer's within a machine, for a tensor of `bytes` bytes;
  /// nothing if there is none.
  std::optional<std::uint32_t> gpu_route(int peer, DevicePair devices, std::size_t bytes) const;
  bool is_staged(int peer, std::uint32_t route) const;  ///< goes through host memory
  std::shared_ptr<GpuSender> gpu_to(int peer, std::uint32_t route) const;
  /// Throws CommError if there is none.
  std::shared_ptr<GpuReceiver> gpu_from(int peer, std::uint32_t route) const;

  /// Connects network routes, with what is not known at the start. Call it before the first message.
  void connect(const std::function<std::string(int rank)>& describe,
               const std::function<RouteOutlet(int peer, comm::DevicePipe::End own)>& outlet_to,
               std::chrono::nanoseconds busy_poll);
  /// The same where there is no gpu_route().
  std::optional<std::uint32_t> network_route(int peer, DevicePair devices) const;
  NetworkRoutes& network() const { return *network_; }  ///< after connect()

  static constexpr std::uint32_t kSlots = SharedZones::kSlots;
  static_assert(kSlots == GpuBoard::kSlots);
  /// The most bytes of a tensor that go in one piece along the way that the piece names.
  std::size_t piece_bytes(int peer, const Piece& piece, std::size_t tensor_bytes) const;
  /// Copies a piece of a tensor into its slot. `made` as GpuSender::send_piece() has it, of one on a GPU.
  void send_piece(int peer, const Piece& piece, const at::Tensor& tensor, const cuda::Event* made);
  /// Copies a piece out of its slot. Throws CommError if the piece is invalid.
  void read_piece(int peer, const Piece& piece, const at::Tensor& tensor);

  enum class Loss : std::uint8_t { ended_agent, died };
  void lost(int peer, Loss loss);
  std::optional<int> awaited_lost_peer();  ///< see GpuRoutes; on the thread that calls lost()
  void stop() const;                       ///< NetworkRoutes::stop()
  /// Closes the channels at the graceful end of all ranks.
  void close();

  enum class Direction : std::uint8_t { sent, received };
  void count(Channel channel, Direction direction, std::size_t bytes);
  std::vector<Traffic> traffic() const;
  std::string report() const;  ///< of the traffic, in one line

 private:
  int on_machine(int rank) const { return machine_ranks_[at(rank)]; }

  const int rank_;
  int cores_ = 1;
  std::shared_ptr<SharedZones> zones_;  // null: not open
  std::unique_ptr<GpuRoutes> gpu_;      // null: not open
  std::unique_ptr<GpuRoutes> staged_;   // between GPUs that those do not join; null: not open
  std::vector<NetworkRoutes::Plan> network_plans_;
  const std::chrono::milliseconds timeout_;
  std::unique_ptr<NetworkRoutes> network_;
  std::vector<int> machine_ranks_;  // by rank: its rank within its machine
  std::vector<Channel> chosen_;     // by peer
  mutable std::mutex mutex_;        // of the traffic
  std::array<Traffic, enum_names<Channel>.size()> traffic_;
};

}  // namespace strata::rpc
