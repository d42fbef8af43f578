// SPDX-License-Identifier: Apache-2.0
#include "channels/network_routes.hpp"

#include "strata/util/error.hpp"

namespace strata::rpc {
namespace {

template <typename Ends>
auto& end_of(const Ends& ends, int peer, std::uint32_t number) {
  const auto found = ends.find({peer, number});
  if (found == ends.end()) throw CommError("a message names a way for a tensor that does not exist");
  return *found->second;
}

}  // namespace

NetworkRoutes::NetworkRoutes(const Setup& setup) {
  const auto places = std::make_shared<TransferPlaces>();
  for (const Plan& plan : setup.plans) {
    const GpuRoute& route = plan.route;
    const bool sends = route.sender == setup.rank;
    const int peer = sends ? route.receiver : route.sender;
    RouteSetup end{.device = {Device::Kind::cuda, sends ? route.devices.mine : route.devices.its},
                   .number = route.number,
                   .uses_nccl = plan.uses_nccl,
                   .timeout = setup.timeout,
                   .busy_poll = setup.busy_poll,
                   .here = setup.describe(setup.rank),
                   .peer = setup.describe(peer),
                   .places = places,
                   .outlet = setup.outlet_to(
                       peer, sends ? comm::DevicePipe::End::sends : comm::DevicePipe::End::receives)};
    if (sends) {
      from_here_.push_back(route);
      senders_.emplace(Key{peer, route.number}, std::make_unique<NetworkSender>(std::move(end)));
    } else {
      receivers_.emplace(Key{peer, route.number}, std::make_unique<NetworkReceiver>(std::move(end)));
    }
  }
}

std::optional<std::uint32_t> NetworkRoutes::find(int peer, DevicePair devices) const {
  for (const GpuRoute& route : from_here_)
    if (route.receiver == peer && route.devices == devices) return route.number;
  return std::nullopt;
}

NetworkSender& NetworkRoutes::to(int peer, std::uint32_t number) const {
  return end_of(senders_, peer, number);
}
NetworkReceiver& NetworkRoutes::from(int peer, std::uint32_t number) const {
  return end_of(receivers_, peer, number);
}

void NetworkRoutes::heard(int peer, const RouteNote& note) {
  const bool is_for_receiver = note.step == RouteNote::Step::open || note.step == RouteNote::Step::fail;
  if (is_for_receiver)
    from(peer, note.route).heard(note);
  else
    to(peer, note.route).heard(note);
}

void NetworkRoutes::lost(int peer) {
  for (const auto& [key, sender] : senders_)
    if (key.first == peer) sender->stop();
  for (const auto& [key, receiver] : receivers_)
    if (key.first == peer) receiver->stop();
}

void NetworkRoutes::stop() {
  for (const auto& [key, sender] : senders_) sender->stop();
  for (const auto& [key, receiver] : receivers_) receiver->stop();
  for (const auto& [key, sender] : senders_) sender->join();
  for (const auto& [key, receiver] : receivers_) receiver->join();
}

}  // namespace strata::rpc
