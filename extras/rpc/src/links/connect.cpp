// SPDX-License-Identifier: Apache-2.0
#include "links/connect.hpp"

#include <fmt/format.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <asio/connect.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>

#include "strata/comm/backend.hpp"
#include "strata/comm/communicator.hpp"
#include "strata/util/error.hpp"

namespace strata::rpc {
namespace {

using asio::ip::tcp;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kPerAddress{3}, kForAll{60};
constexpr std::size_t kTokenBytes = 32;

/// The first bytes of a connection: its run and the calling rank.
struct Greeting {
  std::array<char, kTokenBytes> token;
  std::uint32_t rank;
};

/// The addresses of a rank.
struct Contact {
  std::string host, network, token;
  std::uint16_t port = 0;
  std::vector<std::string> addresses;

  std::string text() const {
    std::string all = fmt::format("{}\n{}\n{}\n{}\n", host, network, token, port);
    for (const std::string& address : addresses) all += address + "\n";
    return all;
  }
  static Contact parse(const std::string& text) {
    std::istringstream lines(text);
    Contact place;
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

std::string random_token() {
  std::random_device random;
  std::string token;
  while (token.size() < kTokenBytes) token += fmt::format("{:08x}", random());
  return token;
}

/// Sets options of a socket: a network that breaks while nothing is on its way is noticed within ten seconds,
/// and small messages are sent at once.
void prepare(tcp::socket& socket) {
  socket.set_option(tcp::no_delay(true));
  socket.set_option(asio::socket_base::keep_alive(true));
  const auto set = [&](int option, int value) {
    setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
  };
  set(TCP_KEEPIDLE, 3);
  set(TCP_KEEPINTVL, 2);
  set(TCP_KEEPCNT, 3);
}

/// Opens a port for IPv4 and IPv6, or for IPv4 where the kernel has nothing else; only for this host if all
/// ranks are here.
tcp::acceptor listen(asio::io_context& context, bool one_host) {
  if (one_host) return {context, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  tcp::acceptor both(context);
  asio::error_code failed;
  both.open(tcp::v6(), failed);
  if (!failed) both.set_option(asio::ip::v6_only(false), failed);
  if (!failed) both.bind({tcp::v6(), 0}, failed);
  if (failed) return {context, tcp::endpoint(tcp::v4(), 0)};
  both.listen();
  return both;
}

class Connector {
 public:
  Connector(asio::io_context& context, const comm::Communicator& communicator)
      : context_(context),
        acceptor_(context),
        rank_(communicator.rank()),
        missing_(communicator.size() - communicator.rank() - 1),
        deadline_(steady_clock::now() + kForAll) {
    const std::vector<std::string> networks = communicator.all_gather(comm::network_identity());
    const bool one_host = std::ranges::count(networks, networks.front()) == std::ssize(networks);
    communicator.together([&] { acceptor_ = listen(context, one_host); });
    const Contact own{.host = comm::host_name(),
                      .network = comm::network_identity(),
                      .token = random_token(),
                      .port = acceptor_.local_endpoint().port(),
                      .addresses = comm::network_addresses()};
    for (const std::string& text : communicator.all_gather(own.text()))
      places_.push_back(Contact::parse(text));
    for (std::size_t r = 0; r < places_.size(); ++r) sockets_.emplace_back(context);
    accept_next();
  }
  ~Connector() {
    asio::error_code ignored;
    acceptor_.close(ignored);
    for (const std::shared_ptr<Guest>& guest : guests_) guest->socket.close(ignored);
    context_.restart();
    context_.poll();  // so that no handler is left
  }
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  std::vector<tcp::socket> connect() {
    for (int peer = 0; peer < rank_; ++peer) call(peer);
    await_callers();
    for (std::size_t r = 0; r < sockets_.size(); ++r)
      if (static_cast<int>(r) != rank_) prepare(sockets_[r]);
    return std::move(sockets_);
  }

 private:
  /// A peer that has connected, until its greeting has come.
  struct Guest {
    tcp::socket socket;
    Greeting greeting{};
  };

  const Contact& place(int rank) const { return places_[at(rank)]; }

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
      // Past the deadline, too: the handler must not outlive what it refers to.
      while (!done) context_.run_one();
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

  /// Calls a peer. The interface that led to a peer before comes first: another one may swallow packets, and
  /// each try of it takes seconds.
  void call(int peer) {
    const bool one_host = place(peer).network == place(rank_).network;
    const std::vector<std::string> loopback{"127.0.0.1"};
    const std::vector<std::string>& addresses = one_host ? loopback : place(peer).addresses;
    std::vector<std::size_t> order(addresses.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_partition(order, [this](std::size_t each) { return each == worked_; });
    for (const std::size_t each : order) {
      tcp::socket socket(context_);
      if (!try_address(socket, peer, addresses[each])) continue;
      sockets_[at(peer)] = std::move(socket);
      if (!one_host) worked_ = each;
      return;
    }
    throw CommError(
        fmt::format("rank {} (host {}) could not connect to rank {} (host {}) at any of its {} addresses",
                    rank_, place(rank_).host, peer, place(peer).host, addresses.size()),
        "Between hosts, GLOO_SOCKET_IFNAME names the network interfaces to use; is a firewall in the way?");
  }

  /// Accepts while this rank calls others, too. A silent stranger delays nobody.
  void accept_next() {
    acceptor_.async_accept([this](const asio::error_code& code, tcp::socket socket) {
      if (!acceptor_.is_open() || (code && code != asio::error::connection_aborted)) return;
      if (!code) receive(std::make_shared<Guest>(Guest{.socket = std::move(socket)}));
      accept_next();
    });
  }

  void receive(const std::shared_ptr<Guest>& guest) {
    guests_.push_back(guest);
    asio::async_read(guest->socket, asio::buffer(&guest->greeting, sizeof(guest->greeting)),
                     [this, guest](const asio::error_code& code, std::size_t) {
                       asio::error_code ignored;
                       if (code || !admit(*guest)) guest->socket.close(ignored);
                       std::erase(guests_, guest);
                     });
  }

  /// Returns whether it belongs to this run, and is expected.
  bool admit(Guest& guest) {
    const auto caller = static_cast<int>(guest.greeting.rank);
    const std::string_view token(guest.greeting.token.data(), kTokenBytes);
    if (token != place(rank_).token || caller <= rank_ || caller >= static_cast<int>(places_.size()) ||
        sockets_[at(caller)].is_open())
      return false;
    const char answer = 1;
    asio::error_code failed;
    asio::write(guest.socket, asio::buffer(&answer, 1), failed);
    if (failed) return false;
    sockets_[at(caller)] = std::move(guest.socket);
    --missing_;
    return true;
  }

  void await_callers() {
    context_.restart();
    while (missing_ > 0 && context_.run_one_until(deadline_) != 0) {
    }
    if (missing_ == 0) return;
    throw CommError(fmt::format("rank {} (host {}) was not called by all ranks above it within {} s", rank_,
                                place(rank_).host, kForAll.count()));
  }

  asio::io_context& context_;
  tcp::acceptor acceptor_;
  const int rank_;
  int missing_;             // ranks that will call this one
  std::size_t worked_ = 0;  // which of a peer's addresses led there
  const steady_clock::time_point deadline_;
  std::vector<Contact> places_;
  std::vector<tcp::socket> sockets_;
  std::vector<std::shared_ptr<Guest>> guests_;
};

}  // namespace

std::vector<tcp::socket> connect_all(asio::io_context& context, const comm::Communicator& communicator) {
  Connector connector(context, communicator);
  std::vector<tcp::socket> sockets;
  communicator.together([&] { sockets = connector.connect(); });
  return sockets;
}

}  // namespace strata::rpc
