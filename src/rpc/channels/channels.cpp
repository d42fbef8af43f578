// SPDX-License-Identifier: Apache-2.0
#include "channels/channels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "strata/comm/machine.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/registration.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/log.hpp"
#include "wire.hpp"

namespace strata::rpc {
namespace {

constexpr std::size_t kPage = 4096, kMostPieceBytes = std::size_t{1} << 20;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::size_t piece_bytes_of(std::size_t ranks, std::size_t zone_bytes) {
  const std::size_t half_of_zone = zone_bytes / (2 * ranks * SharedZones::kSlots);
  return std::clamp(half_of_zone / kPage * kPage, kPage, kMostPieceBytes);
}

/// What a rank tells the others about its channels.
struct ChannelFacts {
  bool shared_memory = false, tcp = false;  ///< that it may use
  std::uint64_t landing_bytes = 0;
  int machine = -1, machine_rank = 0;  ///< -1: its zone is not open
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(shared_memory, tcp, landing_bytes, machine, machine_rank);
  }
};

ChannelFacts facts_of(const Options& options) {
  const auto allows = [&](Channel channel) {
    return options.channels.empty() || std::ranges::find(options.channels, channel) != options.channels.end();
  };
  return {.shared_memory = allows(Channel::shared_memory),
          .tcp = allows(Channel::tcp),
          .landing_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(options.landing_bytes, 0))};
}

std::vector<ChannelFacts> gather(const comm::Communicator& communicator, const ChannelFacts& own) {
  std::vector<ChannelFacts> all;
  for (const std::string& text : communicator.all_gather(text_of(own)))
    all.push_back(parse<ChannelFacts>(text));
  return all;
}

/// A GPU of this rank that some map has.
std::optional<Device> mapped_device(int rank, const std::vector<AgentFacts>& agents) {
  for (const DeviceMap& map : maps_of(rank, agents))
    if (!map.pairs().empty()) return Device{Device::Kind::cuda, map.pairs().front().mine};
  for (std::size_t caller = 0; caller < agents.size(); ++caller) {
    const DeviceMap map = maps_of(static_cast<int>(caller), agents)[at(rank)];
    if (!map.pairs().empty()) return Device{Device::Kind::cuda, map.pairs().front().its};
  }
  return std::nullopt;
}

/// The same zones, which `device` then copies from and to at full speed.
std::shared_ptr<SharedZones> registered(std::shared_ptr<SharedZones> zones, Device device) {
  struct Registered {
    std::shared_ptr<SharedZones> zones;
    cuda::Registration registration;  // ends before the memory
  };
  try {
    const cuda::DeviceGuard guard(device);
    const std::span<std::byte> memory = zones->memory();
    return {std::make_shared<Registered>(Registered{zones, cuda::Registration(memory.data(), memory.size())}),
            zones.get()};
  } catch (const CudaError& error) {
    spdlog::warn("rpc: shared memory is not pinned, so that tensors on GPUs take it slowly: {}",
                 error.what());
    return zones;
  }
}

/// The zones of this rank's machine; null if they cannot be opened, or if no two ranks may use them.
/// Collective.
std::shared_ptr<SharedZones> open_zones(const comm::Communicator& communicator, const Options& options,
                                        const std::vector<AgentFacts>& agents, ChannelFacts& own) {
  const std::vector<ChannelFacts> all = gather(communicator, own);
  if (std::ranges::count_if(all, &ChannelFacts::shared_memory) < 2) return nullptr;
  comm::Machine machine(communicator,
                        comm::discover(communicator, {.ranks_per_machine = options.ranks_per_machine,
                                                      .compute = comm::TopologyOptions::Compute::cpu}));
  const auto landing_bytes = std::ranges::min(all, {}, &ChannelFacts::landing_bytes).landing_bytes;
  communicator.together([&] {
    const std::size_t least = SharedZones::least_landing_bytes(machine.size());
    if (machine.size() == 1 || landing_bytes >= least) return;
    throw InputError(
        fmt::format("Options::landing_bytes is {} on some rank; {} ranks on a machine need at least {}",
                    landing_bytes, machine.size(), least));
  });
  std::shared_ptr<SharedZones> zones;
  try {
    if (machine.size() > 1) zones = std::make_shared<SharedZones>(machine, landing_bytes);
  } catch (const Error& error) {
    if (machine.rank() == 0)
      spdlog::warn("rpc: no shared memory between the ranks of a machine, so tensors take {}: {}",
                   enum_name(Channel::tcp), error.what());
  }
  if (const auto device = mapped_device(communicator.rank(), agents); zones && device)
    zones = registered(std::move(zones), *device);
  if (zones) {
    own.machine = machine.index();
    own.machine_rank = machine.rank();
  }
  machine.close();
  return zones;
}

std::optional<Channel> channel_between(const ChannelFacts& a, const ChannelFacts& b) {
  if (a.shared_memory && b.shared_memory && a.machine >= 0 && a.machine == b.machine)
    return Channel::shared_memory;
  if (a.tcp && b.tcp) return Channel::tcp;
  return std::nullopt;
}

void check_all_connected(const std::vector<ChannelFacts>& facts, const std::vector<AgentFacts>& agents) {
  for (std::size_t a = 0; a < facts.size(); ++a) {
    for (std::size_t b = a + 1; b < facts.size(); ++b) {
      if (channel_between(facts[a], facts[b])) continue;
      throw InputError(fmt::format("{} (host {}) and {} (host {}) have no channel for tensors in common",
                                   agents[a].name, agents[a].host, agents[b].name, agents[b].host),
                       fmt::format("Options::channels must allow {} on both, or {} if they share a machine.",
                                   enum_name(Channel::tcp), enum_name(Channel::shared_memory)));
    }
  }
}

/// One line per channel that two ranks use.
void log_table(const std::vector<ChannelFacts>& facts, const std::vector<AgentFacts>& agents) {
  constexpr std::size_t kMostNamed = 12;
  std::map<Channel, std::vector<std::string>> pairs;
  for (std::size_t a = 0; a < facts.size(); ++a)
    for (std::size_t b = a + 1; b < facts.size(); ++b)
      pairs[*channel_between(facts[a], facts[b])].push_back(
          fmt::format("{} - {}", agents[a].name, agents[b].name));
  for (auto& [channel, names] : pairs) {
    const std::size_t count = names.size();
    names.resize(std::min(count, kMostNamed));
    spdlog::debug("rpc: tensors take {} between {}{}", enum_name(channel), fmt::join(names, ", "),
                  count > kMostNamed ? fmt::format(" and {} other pairs", count - kMostNamed) : "");
  }
}

}  // namespace

SharedZones::SharedZones(const comm::Machine& machine, std::size_t landing_bytes)
    : ranks_(at(machine.size())),
      zone_bytes_(landing_bytes / kPage * kPage),
      piece_bytes_(piece_bytes_of(ranks_, zone_bytes_)),
      region_(tensor::HostRegion::create(machine, ranks_ * zone_bytes_, "tensors between agents")) {
  own_.emplace(rooms(machine.rank()));
}

std::size_t SharedZones::least_landing_bytes(int ranks) { return 2 * at(ranks) * kSlots * kPage; }

std::span<std::byte> SharedZones::rooms(int rank) const {
  return {region_.data() + at(rank) * zone_bytes_, zone_bytes_ - ranks_ * kSlots * piece_bytes_};
}

std::span<std::byte> SharedZones::slot(int sender, int receiver, std::uint32_t index) const {
  const std::span<std::byte> before = rooms(sender);
  return {before.data() + before.size() + (at(receiver) * kSlots + index) * piece_bytes_, piece_bytes_};
}

Channels::Channels(const comm::Communicator& communicator, const Options& options,
                   const std::vector<AgentFacts>& agents)
    : rank_(communicator.rank()) {
  ChannelFacts own = facts_of(options);
  zones_ = open_zones(communicator, options, agents, own);
  const std::vector<ChannelFacts> all = gather(communicator, own);
  check_all_connected(all, agents);
  if (rank_ == 0) log_table(all, agents);
  for (const ChannelFacts& peer : all) {
    machine_ranks_.push_back(peer.machine_rank);
    chosen_.push_back(channel_between(own, peer).value_or(Channel::tcp));
  }
  for (std::size_t i = 0; i < traffic_.size(); ++i) traffic_[i].channel = enum_names<Channel>[i].value;
}

Channel Channels::to(int peer, std::size_t bytes) const {
  return bytes < kLeastBytes ? Channel::tcp : chosen_[at(peer)];
}

std::shared_ptr<Room> Channels::room(int peer, std::size_t bytes) {
  if (to(peer, bytes) != Channel::shared_memory) return nullptr;
  const std::optional<std::size_t> offset = zones_->own().take(bytes);
  return offset ? std::make_shared<Room>(zones_, zones_->rooms(on_machine(rank_)), *offset) : nullptr;
}

std::shared_ptr<std::byte> Channels::landed(int sender, std::size_t offset, std::size_t bytes) const {
  const std::span<std::byte> rooms = chosen_[at(sender)] == Channel::shared_memory
                                         ? zones_->rooms(on_machine(sender))
                                         : std::span<std::byte>();
  if (offset < 2 * LandingZone::kAlignment || offset % LandingZone::kAlignment != 0 ||
      offset > rooms.size() || bytes > rooms.size() - offset)
    throw CommError("a tensor is said to lie where no tensor can");
  return {rooms.data() + offset,
          [zones = zones_, rooms, offset](std::byte*) { LandingZone::give_back(rooms, offset); }};
}

std::span<std::byte> Channels::slot_to(int peer, std::uint32_t index) const {
  return zones_->slot(on_machine(rank_), on_machine(peer), index);
}

std::span<const std::byte> Channels::slot_from(int peer, std::uint32_t index) const {
  if (chosen_[at(peer)] != Channel::shared_memory || index >= SharedZones::kSlots)
    throw CommError("a piece is said to lie where no piece can");
  return zones_->slot(on_machine(peer), on_machine(rank_), index);
}

void Channels::count(Channel channel, Direction direction, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Traffic& traffic = *std::ranges::find(traffic_, channel, &Traffic::channel);
  Volume& volume = direction == Direction::sent ? traffic.sent : traffic.received;
  ++volume.messages;
  volume.bytes += bytes;
}

std::vector<Traffic> Channels::traffic() const {
  const std::lock_guard lock(mutex_);
  return {traffic_.begin(), traffic_.end()};
}

std::string Channels::report() const {
  std::string text;
  for (const Traffic& each : traffic()) {
    text += fmt::format("{}{}: {} sent in {} {}, {} received in {}", text.empty() ? "" : "; ",
                        enum_name(each.channel), format_bytes(static_cast<std::int64_t>(each.sent.bytes)),
                        each.sent.messages, each.channel == Channel::tcp ? "messages" : "tensors",
                        format_bytes(static_cast<std::int64_t>(each.received.bytes)), each.received.messages);
  }
  return text;
}

}  // namespace strata::rpc
