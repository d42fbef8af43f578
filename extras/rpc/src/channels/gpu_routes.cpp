// SPDX-License-Identifier: Apache-2.0
#include "channels/gpu_routes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string_view>
#include <thread>

#include "channels/pinned.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/rpc/channel.hpp"
#include "strata/tensor/host_array.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "wire.hpp"

namespace strata::rpc {
namespace {

/// Makes host memory of all processes of the machine. Collective over it.
std::shared_ptr<tensor::HostRegion> make_region(const comm::Machine& machine, std::size_t bytes,
                                                const char* name) {
  return std::make_shared<tensor::HostRegion>(tensor::HostRegion::create(machine, bytes, name));
}

/// This rank's GPU at the end of a route.
std::optional<Device> own_device(const GpuRoutes::Wanted& wanted) {
  for (const GpuRoute& route : wanted.routes) {
    if (route.sender == wanted.rank) return Device{Device::Kind::cuda, route.devices.mine};
    if (route.receiver == wanted.rank) return Device{Device::Kind::cuda, route.devices.its};
  }
  return std::nullopt;
}

template <typename T>
std::vector<T> gather(const comm::Machine& machine, const std::vector<T>& own) {
  std::vector<T> all;
  for (const std::string& text : machine.communicator().all_gather(text_of(own)))
    for (T& each : parse<std::vector<T>>(text)) all.push_back(std::move(each));
  return all;
}

/// Bytes of memory for each of the routes to a rank.
std::size_t bytes_to(int receiver, const GpuRoutes::Wanted& wanted) {
  const auto routes = std::ranges::count(wanted.routes, receiver, &GpuRoute::receiver);
  return std::max(wanted.landing_bytes / at(routes), GpuLayout::least_bytes());
}

}  // namespace

std::vector<GpuRoute> gpu_routes_between(std::span<const int> ranks, std::span<const AgentFacts> agents) {
  std::vector<GpuRoute> routes;
  const auto map_of = [&](int caller, int callee) { return maps_of(caller, agents)[at(callee)]; };
  for (const int sender : ranks) {
    for (const int receiver : ranks) {
      if (sender == receiver) continue;
      const DeviceMap arguments = map_of(sender, receiver), results = map_of(receiver, sender);
      std::vector<DevicePair> pairs = arguments.pairs();
      for (const DevicePair& pair : results.pairs()) pairs.push_back({.mine = pair.its, .its = pair.mine});
      std::uint32_t number = 0;
      for (auto pair = pairs.begin(); pair != pairs.end(); ++pair)
        if (std::find(pairs.begin(), pair, *pair) == pair)
          routes.push_back({.sender = sender, .receiver = receiver, .number = number++, .devices = *pair});
    }
  }
  return routes;
}

bool joins_one_gpu(const GpuRoute& route, std::span<const AgentFacts> agents) {
  const auto gpu = [&](int rank, int index) { return agents[at(rank)].gpus.at(at(index)); };
  return gpu(route.sender, route.devices.mine) == gpu(route.receiver, route.devices.its);
}

/// Makes the places of all routes. Collective over the machine.
std::vector<GpuRoutes::Place> GpuRoutes::make_places(const comm::Machine& machine, const Wanted& wanted) {
  const bool is_staged = wanted.through == Through::pinned_memory;
  const auto boards =
      make_region(machine, wanted.routes.size() * sizeof(GpuBoard), "boards of tensors between GPUs");
  std::vector<Place> places;
  std::size_t total = 0;
  for (std::size_t i = 0; i < wanted.routes.size(); ++i) {
    const std::size_t bytes = bytes_to(wanted.routes[i].receiver, wanted);
    std::byte* const board = boards->data() + i * sizeof(GpuBoard);
    places.push_back({.layout = is_staged ? GpuLayout::staged(bytes) : GpuLayout::of(bytes),
                      .board = {boards, reinterpret_cast<GpuBoard*>(board)}});
    total += places.back().layout.bytes();
  }
  if (!is_staged) return places;
  std::shared_ptr<tensor::HostRegion> region = make_region(machine, total, "tensors between GPUs");
  machine.communicator().together([&] {
    if (const auto device = own_device(wanted))
      region = pinned(region, {region->data(), region->bytes()}, *device);
  });
  std::byte* next = region->data();
  for (Place& place : places) {
    place.pinned = RouteMemory(region, next);
    next += place.layout.bytes();
  }
  return places;
}

GpuRoutes::GpuRoutes(const comm::Machine& machine, const Wanted& wanted) {
  const std::vector<Place> places = make_places(machine, wanted);
  std::vector<Offer> own_offers;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (wanted.routes[i].receiver == wanted.rank)
      own_offers.push_back(make_receiver(wanted.routes[i], places[i]));
  std::map<Key, Offer> offers;  // to this rank
  for (Offer& offer : gather(machine, own_offers))
    if (offer.sender == wanted.rank) offers.emplace(Key{offer.receiver, offer.number}, std::move(offer));
  std::vector<Failure> failures;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const GpuRoute& route = wanted.routes[i];
    if (route.sender != wanted.rank) continue;
    const Offer& offer = offers.at({route.receiver, route.number});
    const std::string reason = make_sender(route, offer, places[i]);
    if (!reason.empty()) failures.push_back({route.sender, route.receiver, reason});
  }
  drop(machine, wanted.rank, gather(machine, failures));
  samples_.clear();
  std::set<int> peers;
  for (const auto& [key, sender] : senders_) peers.insert(key.first);
  peers_.assign(peers.begin(), peers.end());
  for (const GpuRoute& route : wanted.routes)
    if (route.sender == wanted.rank && peers.contains(route.receiver)) from_here_.push_back(route);
}

GpuRoutes::Offer GpuRoutes::make_receiver(const GpuRoute& route, const Place& place) {
  Offer offer{.sender = route.sender, .receiver = route.receiver, .number = route.number};
  try {
    const Device target{Device::Kind::cuda, route.devices.its};
    RouteMemory memory = place.pinned;
    if (memory) {
      const cuda::DeviceGuard guard(target);
      offer.handle = samples_.emplace_back(target).handle();
    } else {
      const auto buffer = std::make_shared<cuda::Buffer>(cuda::Memory::device,
                                                         rounded(place.layout.bytes(), cuda::kIpcGranule),
                                                         "tensors from other processes", target);
      offer.handle = cuda::ipc_handle(buffer->data());
      memory = RouteMemory(buffer, static_cast<std::byte*>(buffer->data()));
    }
    receivers_.emplace(Key{route.sender, route.number},
                       std::make_shared<GpuReceiver>(target, std::move(memory), place.layout, place.board));
  } catch (const std::exception& error) {
    offer.failure = error.what();
  }
  return offer;
}

/// Makes the sender's end; returns the reason if it fails.
std::string GpuRoutes::make_sender(const GpuRoute& route, const Offer& offer, const Place& place) {
  if (offer.handle.empty()) return offer.failure;
  try {
    const Device source{Device::Kind::cuda, route.devices.mine};
    RouteMemory memory = place.pinned;
    if (memory) {
      const cuda::IpcEvent opens(source, offer.handle);
    } else {
      if (cuda::peer_access_is_off()) throw CudaError("STRATA_PEER_ACCESS=off is in the environment");
      const auto mapped = std::make_shared<cuda::MappedMemory>(source, offer.handle);
      memory = RouteMemory(mapped, mapped->data());
    }
    senders_.emplace(Key{route.receiver, route.number},
                     std::make_shared<GpuSender>(source, std::move(memory), place.layout, place.board));
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Drops the routes between two ranks if one failed: they take another channel both ways.
void GpuRoutes::drop(const comm::Machine& machine, int rank, std::span<const Failure> failures) {
  if (failures.empty()) return;
  if (machine.rank() == 0) {
    spdlog::warn("rpc: {} ways between GPUs do not open, so that their tensors take the next channel: {}",
                 failures.size(), failures.front().reason);
  }
  const auto failed = [&](int peer) {
    return std::ranges::any_of(failures, [&](const Failure& failure) {
      return (failure.sender == peer && failure.receiver == rank) ||
             (failure.sender == rank && failure.receiver == peer);
    });
  };
  const auto each_failed = [&](auto& ends, auto&& work) {
    for (const auto& [key, end] : ends)
      if (failed(key.first)) work(*end);
  };
  each_failed(senders_, [](GpuSender& sender) { sender.close(); });
  each_failed(receivers_, [](GpuReceiver& receiver) { receiver.close(); });
  machine.barrier();
  each_failed(senders_, [](GpuSender& sender) { sender.finish(true); });
  each_failed(receivers_, [](GpuReceiver& receiver) { receiver.finish(true); });
  std::erase_if(senders_, [&](const auto& each) { return failed(each.first.first); });
  std::erase_if(receivers_, [&](const auto& each) { return failed(each.first.first); });
}

std::optional<std::uint32_t> GpuRoutes::find(int peer, DevicePair devices) const {
  for (const GpuRoute& route : from_here_)
    if (route.receiver == peer && route.devices == devices) return route.number;
  return std::nullopt;
}

void GpuRoutes::lost(int peer) { lost_.emplace(peer, std::chrono::steady_clock::now()); }

std::optional<int> GpuRoutes::awaited_lost_peer() {
  constexpr std::chrono::seconds kGrace{3};  // a GPU ends what a process has begun some time after it
  const auto waits = [](auto& end) {
    try {
      return end.waits();
    } catch (const CudaError&) {  // the device is lost, which its users find out
      return false;
    }
  };
  const auto waits_for = [&](const auto& ends, int peer) {
    return std::ranges::any_of(
        ends, [&](const auto& each) { return each.first.first == peer && waits(*each.second); });
  };
  for (auto each = lost_.begin(); each != lost_.end();) {
    const auto [peer, when] = *each;
    if (std::chrono::steady_clock::now() - when < kGrace) {
      ++each;
      continue;
    }
    each = lost_.erase(each);
    if (waits_for(receivers_, peer) || waits_for(senders_, peer)) return peer;
  }
  return std::nullopt;
}

void GpuRoutes::close() {
  for (const auto& [key, sender] : senders_) sender->close();
  for (const auto& [key, receiver] : receivers_) receiver->close();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  const auto wait = [&](auto&& is_closed) {
    while (!is_closed() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return is_closed();
  };
  for (const auto& [key, sender] : senders_)
    sender->finish(wait([&] { return sender->receiver_is_closed(); }));
  for (const auto& [key, receiver] : receivers_)
    receiver->finish(wait([&] { return receiver->sender_is_closed(); }));
}

}  // namespace strata::rpc
