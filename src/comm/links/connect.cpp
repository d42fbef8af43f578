// SPDX-License-Identifier: Apache-2.0
#include "links/connect.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>

#include <array>
#include <asio/connect.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>
#include <sstream>

#include "strata/comm/backend.hpp"
#include "strata/comm/process_identity.hpp"
#include "strata/util/error.hpp"

namespace strata::comm {
namespace {

using asio::ip::tcp;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kPerAddress{5}, kForAll{60};
constexpr std::size_t kTokenBytes = 32;

/// What a connection begins with: which run it belongs to, and who calls.
struct Greeting {
  std::array<char, kTokenBytes> token;
  std::uint32_t rank;
};

/// Where a rank can be reached.
struct Place {
  std::string host, network, token;
  std::uint16_t port = 0;
  std::vector<std::string> addresses;

  std::string text() const {
    std::string all = fmt::format("{}\n{}\n{}\n{}\n", host, network, token, port);
    for (const std::string& address : addresses) all += address + "\n";
    return all;
  }
  static Place parse(const std::string& text) {
    std::istringstream lines(text);
    Place place;
    std::string line;
    std::getline(lines, place.host);
    std::getline(lines, place.network);
    std::getline(lines, place.token);
    std::getline(lines, line);
    place.port = static_cast<std::uint16_t>(std::stoi(line));
    while (std::getline(lines, line)) place.addresses.push_back(line);
    return place;
  }
};

bool is_wanted(const ifaddrs& interface) {
  if (interface.ifa_addr == nullptr || interface.ifa_addr->sa_family != AF_INET) return false;
  const char* chosen = std::getenv("GLOO_SOCKET_IFNAME");
  if (chosen != nullptr) return std::string(chosen) == interface.ifa_name;
  return (interface.ifa_flags & IFF_UP) != 0 && (interface.ifa_flags & IFF_LOOPBACK) == 0;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return found;
  for (const ifaddrs* interface = first; interface != nullptr; interface = interface->ifa_next) {
    if (!is_wanted(*interface)) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(interface->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    found.emplace_back(text.data());
  }
  freeifaddrs(first);
  return found;
}

std::string random_token() {
  std::random_device random;
  std::string token;
  while (token.size() < kTokenBytes) token += fmt::format("{:08x}", random());
  return token;
}

/// A broken network is noticed within ten seconds, and small messages are sent at once.
void prepare(tcp::socket& socket) {
  socket.set_option(tcp::no_delay(true));
  socket.set_option(asio::socket_base::keep_alive(true));
  const auto set = [&](int option, int value) {
    setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
  };
  set(TCP_KEEPIDLE, 3);
  set(TCP_KEEPINTVL, 2);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, 9000);
}

class Connector {
 public:
  Connector(asio::io_context& context, const Communicator& communicator)
      : context_(context),
        acceptor_(context, tcp::endpoint(tcp::v4(), 0)),
        rank_(communicator.rank()),
        deadline_(steady_clock::now() + kForAll) {
    const Place own{.host = host_name(),
                    .network = network_identity(),
                    .token = random_token(),
                    .port = acceptor_.local_endpoint().port(),
                    .addresses = own_addresses()};
    for (const std::string& text : communicator.all_gather(own.text())) places_.push_back(Place::parse(text));
    for (std::size_t r = 0; r < places_.size(); ++r) sockets_.emplace_back(context);
  }

  std::vector<tcp::socket> connect() {
    for (int peer = 0; peer < rank_; ++peer) call(peer);
    for (auto left = static_cast<int>(places_.size()) - rank_ - 1; left > 0; --left) accept_one();
    for (std::size_t r = 0; r < sockets_.size(); ++r)
      if (static_cast<int>(r) != rank_) prepare(sockets_[r]);
    return std::move(sockets_);
  }

 private:
  const Place& place(int rank) const { return places_[static_cast<std::size_t>(rank)]; }

  /// Runs what was begun until it is done; returns whether it was in time.
  bool finish(const bool& done, seconds patience) {
    context_.restart();
    const auto end = std::min(deadline_, steady_clock::now() + patience);
    while (!done && context_.run_one_until(end) != 0) {
    }
    return done;
  }

  template <typename Begin>
  bool complete(tcp::socket& socket, seconds patience, Begin&& begin) {
    bool done = false;
    asio::error_code result;
    begin([&](const asio::error_code& code, auto&&...) {
      result = code;
      done = true;
    });
    if (!finish(done, patience)) {
      asio::error_code ignored;
      socket.close(ignored);
      finish(done, seconds(1));
      return false;
    }
    return !result;
  }

  bool try_address(tcp::socket& socket, int peer, const std::string& address) {
    const tcp::endpoint end(asio::ip::make_address(address), place(peer).port);
    if (!complete(socket, kPerAddress, [&](auto handler) { socket.async_connect(end, handler); }))
      return false;
    Greeting greeting{.token = {}, .rank = static_cast<std::uint32_t>(rank_)};
    std::copy_n(place(peer).token.begin(), kTokenBytes, greeting.token.begin());
    char answer = 0;
    return complete(socket, kPerAddress,
                    [&](auto handler) {
                      asio::async_write(socket, asio::buffer(&greeting, sizeof(greeting)), handler);
                    }) &&
           complete(socket, kForAll,
                    [&](auto handler) { asio::async_read(socket, asio::buffer(&answer, 1), handler); });
  }

  void call(int peer) {
    const bool one_host = place(peer).network == place(rank_).network;
    const std::vector<std::string> loopback{"127.0.0.1"};
    for (const std::string& address : one_host ? loopback : place(peer).addresses) {
      tcp::socket socket(context_);
      if (!try_address(socket, peer, address)) continue;
      sockets_[static_cast<std::size_t>(peer)] = std::move(socket);
      return;
    }
    throw CommError(
        fmt::format("rank {} (host {}) could not connect to rank {} (host {}) at any of its {} addresses",
                    rank_, place(rank_).host, peer, place(peer).host, place(peer).addresses.size()),
        "Between hosts, GLOO_SOCKET_IFNAME names the network interface to use; is a firewall in the way?");
  }

  /// Strangers are sent away.
  void accept_one() {
    for (;;) {
      tcp::socket socket(context_);
      bool done = false;
      acceptor_.async_accept(socket, [&](const asio::error_code& code) { done = !code; });
      if (!finish(done, kForAll)) {
        acceptor_.close();
        context_.restart();
        context_.poll();
        throw CommError(fmt::format("rank {} (host {}) was not called by all ranks above it within {} s",
                                    rank_, place(rank_).host, kForAll.count()));
      }
      if (const auto caller = read_greeting(socket)) {
        sockets_[static_cast<std::size_t>(*caller)] = std::move(socket);
        return;
      }
    }
  }

  std::optional<int> read_greeting(tcp::socket& socket) {
    Greeting greeting{};
    const bool read = complete(socket, kPerAddress, [&](auto handler) {
      asio::async_read(socket, asio::buffer(&greeting, sizeof(greeting)), handler);
    });
    const auto caller = static_cast<int>(greeting.rank);
    const std::string_view token(greeting.token.data(), kTokenBytes);
    if (!read || token != place(rank_).token || caller <= rank_ ||
        caller >= static_cast<int>(places_.size()) || sockets_[static_cast<std::size_t>(caller)].is_open())
      return std::nullopt;
    const char answer = 1;
    asio::error_code failed;
    asio::write(socket, asio::buffer(&answer, 1), failed);
    if (failed) return std::nullopt;
    return caller;
  }

  asio::io_context& context_;
  tcp::acceptor acceptor_;
  const int rank_;
  const steady_clock::time_point deadline_;
  std::vector<Place> places_;
  std::vector<tcp::socket> sockets_;
};

}  // namespace

std::vector<tcp::socket> connect_all(asio::io_context& context, const Communicator& communicator) {
  Connector connector(context, communicator);
  std::vector<tcp::socket> sockets;
  communicator.together([&] { sockets = connector.connect(); });
  return sockets;
}

}  // namespace strata::comm
