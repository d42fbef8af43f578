// SPDX-License-Identifier: Apache-2.0
#include "channels/channels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "strata/comm/machine.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "strata/util/text.hpp"
#include "wire.hpp"

namespace strata::rpc {
namespace {

constexpr std::chrono::seconds kLeastPatience{30};  // making a communicator takes seconds
constexpr std::size_t kPage = 4096, kMostPieceBytes = std::size_t{1} << 20;

std::size_t piece_bytes_of(std::size_t ranks, std::size_t zone_bytes) {
  const std::size_t half_of_zone = zone_bytes / (2 * ranks * SharedZones::kSlots);
  return std::clamp(half_of_zone / kPage * kPage, kPage, kMostPieceBytes);
}

/// What a rank sends the others about its channels.
struct ChannelFacts {
  bool cuda_ipc = false, shared_memory = false, nccl = false, tcp = false;  ///< that it may use
  std::uint64_t landing_bytes = 0;
  int machine = 0, machine_rank = 0;  ///< known once channels are open, as all below
  bool has_zone = false;
  std::vector<int> gpu_peers = {};  ///< ranks with GPUs that reach its own and back
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(cuda_ipc, shared_memory, nccl, tcp, landing_bytes, machine, machine_rank, has_zone, gpu_peers);
  }
};

ChannelFacts facts_of(const Options& options) {
  const auto allows = [&](Channel channel) {
    return options.channels.empty() || std::ranges::find(options.channels, channel) != options.channels.end();
  };
  return {.cuda_ipc = allows(Channel::cuda_ipc),
          .shared_memory = allows(Channel::shared_memory),
          .nccl = allows(Channel::nccl),
          .tcp = allows(Channel::tcp),
          .landing_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(options.landing_bytes, 0))};
}

std::vector<ChannelFacts> gather(const comm::Communicator& communicator, const ChannelFacts& own) {
  std::vector<ChannelFacts> all;
  for (const std::string& text : communicator.all_gather(text_of(own)))
    all.push_back(parse<ChannelFacts>(text));
  return all;
}

std::size_t least_landing_bytes(const std::vector<ChannelFacts>& all) {
  return std::ranges::min(all, {}, &ChannelFacts::landing_bytes).landing_bytes;
}

/// The zones of this rank's machine; null if they cannot be opened. Collective.
///
/// They are not pinned: a user's copy from pinned memory to a GPU returns before it has read the tensor,
/// and the sender may have taken back its room by then.
std::shared_ptr<SharedZones> open_zones(const comm::Communicator& communicator, const comm::Machine& machine,
                                        const std::vector<ChannelFacts>& all) {
  const std::size_t landing_bytes = least_landing_bytes(all);
  communicator.together([&] {
    const std::size_t least = SharedZones::least_landing_bytes(machine.size());
    if (machine.size() == 1 || landing_bytes >= least) return;
    throw InputError(
        fmt::format("landing_bytes of the options is {} on some rank; {} ranks on a machine need at least {}",
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
  return zones;
}

/// Ranks of this machine that may take a channel, and to whom there are ways between GPUs already.
struct MachineRank {
  int rank = 0;
  std::vector<int> joined = {};
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(rank, joined);
  }
};

/// The ways between GPUs of this rank's machine that `before` lacks; null if there can be none. Collective.
std::unique_ptr<GpuRoutes> open_gpu_routes(const comm::Communicator& communicator,
                                           const comm::Machine& machine, const std::vector<ChannelFacts>& all,
                                           const std::vector<AgentFacts>& agents, GpuRoutes::Through through,
                                           const GpuRoutes* before = nullptr) {
  MachineRank own{.rank = communicator.rank()};
  if (before != nullptr) own.joined = before->peers();
  std::vector<int> ranks;
  std::set<std::pair<int, int>> joined;
  for (const std::string& text : machine.communicator().all_gather(text_of(own))) {
    const auto each = parse<MachineRank>(text);
    const ChannelFacts& facts = all[at(each.rank)];
    if (through == GpuRoutes::Through::receivers_gpu ? facts.cuda_ipc : facts.shared_memory)
      ranks.push_back(each.rank);
    for (const int peer : each.joined) joined.emplace(each.rank, peer);
  }
  std::vector<GpuRoute> routes = gpu_routes_between(ranks, agents);
  std::erase_if(routes, [&](const GpuRoute& route) {
    return joined.contains({route.sender, route.receiver});
  });
  if (routes.empty()) return nullptr;
  try {
    return std::make_unique<GpuRoutes>(machine, GpuRoutes::Wanted{.routes = std::move(routes),
                                                                  .rank = own.rank,
                                                                  .through = through,
                                                                  .landing_bytes = least_landing_bytes(all)});
  } catch (const Error& error) {
    if (machine.rank() == 0)
      spdlog::warn("rpc: no ways between GPUs, so that their tensors take the next channel: {}",
                   error.what());
    return nullptr;
  }
}

std::optional<Channel> channel_between(const ChannelFacts& a, const ChannelFacts& b) {
  if (a.shared_memory && b.shared_memory && a.has_zone && b.has_zone && a.machine == b.machine)
    return Channel::shared_memory;
  if (a.tcp && b.tcp) return Channel::tcp;
  return std::nullopt;
}

/// Whether tensors may take NCCL: GPUs of one machine that do not reach each other have no faster way by it.
bool may_use_nccl(const ChannelFacts& a, const ChannelFacts& b) {
  return a.nccl && b.nccl && a.machine != b.machine;
}

/// The routes between the GPUs of two ranks that only a network joins.
std::vector<NetworkRoutes::Plan> network_plans(int a, int b, const std::vector<ChannelFacts>& facts,
                                               const std::vector<AgentFacts>& agents) {
  std::vector<NetworkRoutes::Plan> plans;
  if (channel_between(facts[at(a)], facts[at(b)]) != Channel::tcp) return plans;
  const bool uses_nccl = may_use_nccl(facts[at(a)], facts[at(b)]);
  for (const GpuRoute& route : gpu_routes_between(std::array{a, b}, agents))
    plans.push_back({.route = route, .uses_nccl = uses_nccl && !joins_one_gpu(route, agents)});
  return plans;
}

void check_all_connected(const std::vector<ChannelFacts>& facts, const std::vector<AgentFacts>& agents) {
  for (std::size_t a = 0; a < facts.size(); ++a) {
    for (std::size_t b = a + 1; b < facts.size(); ++b) {
      if (channel_between(facts[a], facts[b])) continue;
      throw InputError(
          fmt::format("{} (host {}) and {} (host {}) have no channel for tensors in common", agents[a].name,
                      agents[a].host, agents[b].name, agents[b].host),
          fmt::format("The options' channels must allow {} on both, or {} if they share a machine.",
                      enum_name(Channel::tcp), enum_name(Channel::shared_memory)));
    }
  }
}

/// One line per channel that two ranks use: for tensors on GPUs, and for all others.
void log_table(const std::vector<ChannelFacts>& facts, const std::vector<AgentFacts>& agents) {
  constexpr std::size_t kMostNamed = 12;
  std::map<Channel, std::vector<std::string>> pairs;
  for (std::size_t a = 0; a < facts.size(); ++a) {
    for (std::size_t b = a + 1; b < facts.size(); ++b) {
      const std::string pair = fmt::format("{} - {}", agents[a].name, agents[b].name);
      pairs[*channel_between(facts[a], facts[b])].push_back(pair);
      if (std::ranges::find(facts[a].gpu_peers, static_cast<int>(b)) != facts[a].gpu_peers.end()) {
        pairs[Channel::cuda_ipc].push_back(pair);
        continue;
      }
      const auto plans = network_plans(static_cast<int>(a), static_cast<int>(b), facts, agents);
      if (std::ranges::any_of(plans, &NetworkRoutes::Plan::uses_nccl)) pairs[Channel::nccl].push_back(pair);
    }
  }
  for (auto& [channel, names] : pairs) {
    const std::size_t count = names.size();
    names.resize(std::min(count, kMostNamed));
    const bool is_of_gpus = channel == Channel::cuda_ipc || channel == Channel::nccl;
    spdlog::debug("rpc: tensors{} take {} between {}{}", is_of_gpus ? " on GPUs" : "", enum_name(channel),
                  fmt::join(names, ", "),
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
    : rank_(communicator.rank()),
      timeout_(std::max<std::chrono::milliseconds>(options.timeout, kLeastPatience)) {
  ChannelFacts own = facts_of(options);
  const std::vector<ChannelFacts> wishes = gather(communicator, own);
  const bool may_share = std::ranges::count_if(wishes, &ChannelFacts::shared_memory) > 1;
  const bool may_map = std::ranges::count_if(wishes, &ChannelFacts::cuda_ipc) > 1;
  comm::Machine machine(communicator,
                        comm::discover(communicator, {.ranks_per_machine = options.ranks_per_machine,
                                                      .compute = comm::TopologyOptions::Compute::cpu}));
  if (may_share) zones_ = open_zones(communicator, machine, wishes);
  if (may_map)
    gpu_ = open_gpu_routes(communicator, machine, wishes, agents, GpuRoutes::Through::receivers_gpu);
  if (zones_)
    staged_ =
        open_gpu_routes(communicator, machine, wishes, agents, GpuRoutes::Through::pinned_memory, gpu_.get());
  cores_ = comm::resources_of(machine).cores;
  own.machine = machine.index();
  own.machine_rank = machine.rank();
  own.has_zone = zones_ != nullptr;
  if (gpu_) own.gpu_peers = gpu_->peers();
  machine.close();
  const std::vector<ChannelFacts> all = gather(communicator, own);
  check_all_connected(all, agents);
  if (rank_ == 0) log_table(all, agents);
  for (const ChannelFacts& peer : all) {
    const auto index = static_cast<int>(machine_ranks_.size());
    if (index != rank_)
      for (NetworkRoutes::Plan& plan : network_plans(rank_, index, all, agents))
        network_plans_.push_back(std::move(plan));
    machine_ranks_.push_back(peer.machine_rank);
    chosen_.push_back(channel_between(own, peer).value_or(Channel::tcp));
  }
  for (std::size_t i = 0; i < traffic_.size(); ++i) traffic_[i].channel = enum_names<Channel>[i].value;
}

std::optional<std::uint32_t> Channels::gpu_route(int peer, DevicePair devices, std::size_t bytes) const {
  if (const auto found = gpu_ ? gpu_->find(peer, devices) : std::nullopt) return found;
  return staged_ && bytes >= kLeastNotedBytes ? staged_->find(peer, devices) : std::nullopt;
}
std::shared_ptr<GpuSender> Channels::gpu_to(int peer, std::uint32_t route) const {
  if (auto sender = gpu_ ? gpu_->to(peer, route) : nullptr) return sender;
  return staged_ ? staged_->to(peer, route) : nullptr;
}
bool Channels::is_staged(int peer, std::uint32_t route) const {
  return staged_ && staged_->to(peer, route) != nullptr;
}
std::shared_ptr<GpuReceiver> Channels::gpu_from(int peer, std::uint32_t route) const {
  std::shared_ptr<GpuReceiver> receiver = gpu_ ? gpu_->from(peer, route) : nullptr;
  if (!receiver && staged_) receiver = staged_->from(peer, route);
  if (!receiver) throw CommError("a message names a way for a tensor that does not exist");
  return receiver;
}

void Channels::connect(const std::function<std::string(int rank)>& describe,
                       const std::function<RouteOutlet(int peer, comm::DevicePipe::End own)>& outlet_to,
                       std::chrono::nanoseconds busy_poll) {
  network_ = std::make_unique<NetworkRoutes>(NetworkRoutes::Setup{.plans = std::move(network_plans_),
                                                                  .rank = rank_,
                                                                  .timeout = timeout_,
                                                                  .busy_poll = busy_poll,
                                                                  .describe = describe,
                                                                  .outlet_to = outlet_to});
}
std::optional<std::uint32_t> Channels::network_route(int peer, DevicePair devices) const {
  return network_->find(peer, devices);
}

void Channels::lost(int peer, Loss loss) {
  network_->lost(peer);
  if (loss != Loss::died) return;
  for (GpuRoutes* routes : {gpu_.get(), staged_.get()})
    if (routes != nullptr) routes->lost(peer);
}

void Channels::stop() const { network_->stop(); }

std::optional<int> Channels::awaited_lost_peer() {
  for (GpuRoutes* routes : {gpu_.get(), staged_.get()}) {
    const std::optional<int> peer = routes == nullptr ? std::nullopt : routes->awaited_lost_peer();
    if (peer) return peer;
  }
  return std::nullopt;
}

void Channels::close() {
  for (GpuRoutes* routes : {gpu_.get(), staged_.get()})
    if (routes != nullptr) routes->close();
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
    throw CommError("a message names an impossible place of a tensor");
  return {rooms.data() + offset,
          [zones = zones_, rooms, offset](std::byte*) { LandingZone::give_back(rooms, offset); }};
}

std::size_t Channels::piece_bytes(int peer, const Piece& piece, std::size_t tensor_bytes) const {
  return piece.gpu_route == Piece::kOnHost ? zones_->piece_bytes()
                                           : gpu_to(peer, piece.route())->piece_bytes_of(tensor_bytes);
}

void Channels::send_piece(int peer, const Piece& piece, const at::Tensor& tensor, const cuda::Event* made) {
  if (piece.gpu_route != Piece::kOnHost)
    return gpu_to(peer, piece.route())->send_piece(piece.slot, tensor, *made, piece.offset, piece.bytes);
  std::memcpy(zones_->slot(on_machine(rank_), on_machine(peer), piece.slot).data(),
              static_cast<const std::byte*>(tensor.const_data_ptr()) + piece.offset, piece.bytes);
}

void Channels::read_piece(int peer, const Piece& piece, const at::Tensor& tensor) {
  const bool is_on_host = piece.gpu_route == Piece::kOnHost;
  if (piece.slot >= kSlots || tensor.is_cuda() == is_on_host || piece.offset > tensor.nbytes() ||
      piece.bytes > tensor.nbytes() - piece.offset ||
      (is_on_host && (chosen_[at(peer)] != Channel::shared_memory || piece.bytes > zones_->piece_bytes())))
    throw CommError("a piece of a tensor does not fit into it");
  if (!is_on_host)
    return gpu_from(peer, piece.route())->read_piece(piece.slot, tensor, piece.offset, piece.bytes);
  std::memcpy(static_cast<std::byte*>(tensor.mutable_data_ptr()) + piece.offset,
              zones_->slot(on_machine(peer), on_machine(rank_), piece.slot).data(), piece.bytes);
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
