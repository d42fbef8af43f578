// SPDX-License-Identifier: Apache-2.0
#include "links/message_links.hpp"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "links/connect.hpp"
#include "links/delays.hpp"

namespace strata::rpc {
namespace {

using asio::ip::tcp;
using std::chrono::steady_clock;
using Message = MessageLinks::Message;
using BulkMemory = MessageLinks::BulkMemory;

constexpr std::uint32_t kMagic = 0x53525031, kGoodbye = 0x53525030;

/// The frame in front of every message.
struct Frame {
  std::uint32_t magic = kMagic;
  std::uint32_t head_bytes = 0;
  std::uint64_t bulk_bytes = 0;
};

template <typename Spans>
std::uint64_t total_bytes(const Spans& spans) {
  std::uint64_t total = 0;
  for (const auto& span : spans) total += span.size();
  return total;
}

/// The connection to one rank. Used only on the thread of the links, except where noted.
class Link {
 public:
  Link(tcp::socket socket, int peer, std::optional<Delays> delays)
      : socket_(std::move(socket)), peer_(peer), timer_(socket_.get_executor()), delays_(std::move(delays)) {}

  void start(MessageLinks::Receiver& receiver, std::function<void()> stay_awake) {
    receiver_ = &receiver;
    stay_awake_ = std::move(stay_awake);
    read_frame();
  }

  /// Sends what the kernel does not take at once by `later`, which has to call send() with it on the thread
  /// of the links, in the order of these calls. On any thread.
  template <typename Later>
  void send_from_any_thread(Message message, Later&& later) {
    const std::lock_guard lock(mutex_);
    const std::size_t written = send_at_once(message);
    if (written == bytes_of(message)) return;
    ++unwritten_;
    later(std::move(message), written);
  }

  /// Sends what is left of a message after its first bytes.
  void send(Message message, std::size_t written) {
    if (lost_) return;
    const Frame frame = frame_of(message);
    outgoing_.push_back({frame, std::move(message), written});
    if (outgoing_.size() == 1) write_next();
  }

  void announce_end() {
    if (lost_) return;
    leaving_ = true;
    {
      const std::lock_guard lock(mutex_);
      ++unwritten_;
    }
    outgoing_.push_back({Frame{.magic = kGoodbye}, {}, 0});
    if (outgoing_.size() == 1) write_next();
  }
  bool is_done() const { return lost_ || (leaving_ && outgoing_.empty()); }

  /// Gives the peer up if its host has acknowledged nothing for ten seconds, although TCP has sent it data or
  /// asked for room several times: the network is broken. A host acknowledges also for a process that is
  /// stopped or reads nothing, so that no such process is given up, which TCP_USER_TIMEOUT would do.
  /// Called every second.
  void check_network() {
    constexpr std::uint32_t kSilenceMs = 9000, kTries = 3;
    if (lost_) return;
    tcp_info info{};
    socklen_t bytes = sizeof(info);
    if (getsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return;
    const auto acknowledged = steady_clock::now() - std::chrono::milliseconds(info.tcpi_last_ack_recv);
    if (acknowledged > acknowledged_ + std::chrono::milliseconds(100)) {
      acknowledged_ = acknowledged;
      retransmits_heard_ = info.tcpi_total_retrans;
    }
    const bool asks_in_vain =
        info.tcpi_probes >= kTries || info.tcpi_total_retrans - retransmits_heard_ >= kTries;
    if (info.tcpi_last_ack_recv >= kSilenceMs && asks_in_vain) give_up("its host does not answer any more");
  }
  /// Closes the connection as if it were lost.
  void give_up(const std::string& reason) {
    if (std::exchange(lost_, true)) return;
    close();
    if (!leaving_) receiver_->lost(peer_, reason);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
    asio::error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
  }

 private:
  struct Outgoing {
    Frame frame;
    Message message;
    std::size_t written = 0;
  };

  static Frame frame_of(const Message& message) {
    return {.head_bytes = static_cast<std::uint32_t>(message.head.size()),
            .bulk_bytes = total_bytes(message.bulk)};
  }
  static std::size_t bytes_of(const Message& message) {
    return sizeof(Frame) + message.head.size() + total_bytes(message.bulk);
  }

  /// Gives a small message to the kernel if nothing is ahead of it, which spares the thread of the links a
  /// turn and the caller the wait for it. Returns the bytes that the kernel took. With the lock held.
  std::size_t send_at_once(const Message& message) {
    constexpr std::size_t kMostBytes = std::size_t{16} << 10;
    if (!is_open_ || unwritten_ > 0 || bytes_of(message) > kMostBytes) return 0;
    const Frame frame = frame_of(message);
    std::vector<iovec> parts;
    for (const asio::const_buffer& part : parts_of(frame, message))
      parts.push_back({const_cast<void*>(part.data()), part.size()});
    const msghdr all{.msg_name = nullptr,
                     .msg_namelen = 0,
                     .msg_iov = parts.data(),
                     .msg_iovlen = parts.size(),
                     .msg_control = nullptr,
                     .msg_controllen = 0,
                     .msg_flags = 0};
    // The thread of the links meets an error again, and reports it.
    return at(std::max<ssize_t>(0, ::sendmsg(socket_.native_handle(), &all, MSG_DONTWAIT | MSG_NOSIGNAL)));
  }

  /// The buffers of a message without its first `written` bytes.
  static std::vector<asio::const_buffer> parts_of(const Frame& frame, const Message& message,
                                                  std::size_t written = 0) {
    std::vector<asio::const_buffer> parts{asio::buffer(&frame, sizeof(frame)), asio::buffer(message.head)};
    for (const auto& span : message.bulk) parts.emplace_back(span.data(), span.size());
    for (asio::const_buffer& part : parts) {
      const std::size_t skipped = std::min(written, part.size());
      part += skipped;
      written -= skipped;
    }
    return parts;
  }

  void write_next() {
    const Outgoing& next = outgoing_.front();
    const auto parts = parts_of(next.frame, next.message, next.written);
    asio::async_write(socket_, parts, [this](const asio::error_code& code, std::size_t) {
      if (code) {
        outgoing_.clear();
        return give_up(code.message());
      }
      outgoing_.pop_front();
      {
        const std::lock_guard lock(mutex_);
        --unwritten_;
      }
      if (!outgoing_.empty()) write_next();
    });
  }

  void read_frame() {
    asio::async_read(
        socket_, asio::buffer(&frame_, sizeof(frame_)), [this](const asio::error_code& code, std::size_t) {
          if (code) return give_up(code.message());
          if (frame_.magic == kGoodbye) return give_up({});
          if (frame_.magic != kMagic) return give_up("it sent what is no message");
          try {
            head_.resize(frame_.head_bytes);
          } catch (const std::bad_alloc&) {
            return give_up(fmt::format("no memory for its message of {} bytes", frame_.head_bytes));
          }
          read_head();
        });
  }

  void read_head() {
    asio::async_read(socket_, asio::buffer(head_), [this](const asio::error_code& code, std::size_t) {
      if (code) return give_up(code.message());
      take_bulk_memory();
    });
  }

  void take_bulk_memory() {
    bulk_memory_ = {};
    try {
      bulk_memory_ = receiver_->memory_for_bulk(peer_, head_);
    } catch (const std::exception&) {  // which arrived() learns from the null
    }
    if (total_bytes(bulk_memory_.bulk) != frame_.bulk_bytes) bulk_memory_ = {};
    if (bulk_memory_.memory == nullptr) return drop_bulk(frame_.bulk_bytes);
    if (frame_.bulk_bytes == 0) return deliver_in_time();
    std::vector<asio::mutable_buffer> buffers;
    for (const auto& span : bulk_memory_.bulk) buffers.emplace_back(span.data(), span.size());
    asio::async_read(socket_, buffers, [this](const asio::error_code& code, std::size_t) {
      if (code) return give_up(code.message());
      deliver_in_time();
    });
  }

  void drop_bulk(std::uint64_t left) {
    if (left == 0) return deliver_in_time();
    dropped_.resize(std::min<std::uint64_t>(left, 1 << 20));
    asio::async_read(socket_, asio::buffer(dropped_),
                     [this, left](const asio::error_code& code, std::size_t bytes) {
                       if (code) return give_up(code.message());
                       drop_bulk(left - bytes);
                     });
  }

  void deliver_in_time() {
    if (!delays_) return deliver();
    timer_.expires_after(delays_->next());
    timer_.async_wait([this](const asio::error_code& code) {
      if (!code && !lost_) deliver();
    });
  }

  void deliver() {
    stay_awake_();
    try {
      receiver_->arrived(peer_, std::move(head_), std::exchange(bulk_memory_, {}).memory);
    } catch (const std::exception& error) {
      return give_up(error.what());
    }
    head_.clear();
    read_frame();
  }

  tcp::socket socket_;
  const int peer_;
  std::mutex mutex_;  // of these two, and of what other threads do
  bool is_open_ = true;
  std::size_t unwritten_ = 0;  // messages that were given to send() or will be
  asio::steady_timer timer_;
  std::optional<Delays> delays_;
  MessageLinks::Receiver* receiver_ = nullptr;
  std::function<void()> stay_awake_;
  bool lost_ = false, leaving_ = false;
  steady_clock::time_point acknowledged_;  // the last time that check_network() has seen
  std::uint32_t retransmits_heard_ = 0;    // those before that
  std::deque<Outgoing> outgoing_;          // the first is being written
  Frame frame_;
  std::string head_;
  BulkMemory bulk_memory_;
  std::vector<std::byte> dropped_;
};

}  // namespace

struct MessageLinks::State {
  State(const comm::Communicator& communicator, std::chrono::nanoseconds polling)
      : work(asio::make_work_guard(context)), busy_poll(polling) {
    std::optional<DelaySettings> settings;
    communicator.together(
        [&settings] { settings = DelaySettings::parse(std::getenv("STRATA_MESSAGE_DELAYS")); });
    std::vector<tcp::socket> sockets = connect_all(context, communicator);
    const int self = communicator.rank();
    for (int r = 0; r < communicator.size(); ++r) {
      std::optional<Delays> delays;
      if (settings) delays.emplace(*settings, r, self);
      links.push_back(r == self ? nullptr
                                : std::make_unique<Link>(std::move(sockets[at(r)]), r, std::move(delays)));
    }
  }

  void run() {
    while (!context.stopped()) {
      if (steady_clock::now() > awake_until)
        context.run_one();
      else if (context.poll() == 0)
        std::this_thread::yield();  // to the thread that works on what is expected, if cores are few
    }
  }
  /// Keeps polling for a while, because more may come soon.
  void stay_awake() { awake_until = steady_clock::now() + busy_poll; }

  void repeat(std::chrono::milliseconds period, const std::shared_ptr<std::function<bool()>>& repeated) {
    const auto timer = std::make_shared<asio::steady_timer>(context, period);
    timer->async_wait([this, timer, period, repeated](const asio::error_code& code) {
      if (!code && !ending && (*repeated)()) repeat(period, repeated);
    });
  }

  /// Runs `work` on the thread, in the order of these calls. asio by itself would let those of other threads
  /// overtake those of its own.
  void in_order(std::function<void()> work) {
    const std::lock_guard lock(mutex);
    waiting.push_back(std::move(work));
    if (!std::exchange(is_draining, true)) asio::post(context, [this] { drain(); });
  }

  void send(int peer, Message message) {
    if (is_over()) return;
    Link& link = *links[at(peer)];
    link.send_from_any_thread(std::move(message), [&](Message rest, std::size_t written) {
      in_order([&link, written, sent = std::move(rest)]() mutable { link.send(std::move(sent), written); });
    });
  }

  bool is_over() {
    const std::lock_guard lock(mutex);
    return over;
  }
  /// Drops, after the thread, work that was posted late or is posted now: it may keep the links' owner.
  void finish() {
    std::deque<std::function<void()>> dropped;  // without the lock
    const std::lock_guard lock(mutex);
    over = true;
    dropped.swap(waiting);
  }

  void drain() {
    for (;;) {
      std::function<void()> work;
      {
        const std::lock_guard lock(mutex);
        if (waiting.empty()) {
          is_draining = false;
          return;
        }
        work = std::move(waiting.front());
        waiting.pop_front();
      }
      work();
    }
  }

  /// Waits a while for what is still to be written, because a peer may be stopped.
  void leave(int patience) {
    ending = true;
    bool done = true;
    for (const auto& link : links) done = done && (!link || link->is_done());
    if (!done && patience > 0) {
      const auto timer = std::make_shared<asio::steady_timer>(context, std::chrono::milliseconds(1));
      timer->async_wait([this, timer, patience](const asio::error_code&) { leave(patience - 1); });
      return;
    }
    for (const auto& link : links)
      if (link) link->close();
    context.stop();
  }

  // Guards `waiting`, `is_draining` and `over`. It may be taken while a link's is held, never the other way.
  std::mutex mutex;
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::vector<std::unique_ptr<Link>> links;  // null for this rank
  const std::chrono::nanoseconds busy_poll;
  steady_clock::time_point awake_until;
  bool ending = false;  // of the thread
  std::deque<std::function<void()>> waiting;
  bool is_draining = false;
  bool over = false;
  std::thread thread;
};

MessageLinks::MessageLinks(const comm::Communicator& communicator, std::chrono::nanoseconds busy_poll)
    : state_(std::make_unique<State>(communicator, busy_poll)) {}
MessageLinks::~MessageLinks() { close(); }

void MessageLinks::start(Receiver& receiver) {
  for (const auto& link : state_->links)
    if (link) link->start(receiver, [state = state_.get()] { state->stay_awake(); });
  repeat(std::chrono::seconds(1), [state = state_.get()] {
    for (const auto& link : state->links)
      if (link) link->check_network();
    return true;
  });
  state_->context.restart();
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

void MessageLinks::send(int peer, Message message) { state_->send(peer, std::move(message)); }

void MessageLinks::post(std::function<void()> work) {
  if (!state_->is_over()) state_->in_order(std::move(work));
}

void MessageLinks::give_up(int peer, const std::string& reason) { state_->links[at(peer)]->give_up(reason); }

void MessageLinks::repeat(std::chrono::milliseconds period, std::function<bool()> work) {
  state_->repeat(period, std::make_shared<std::function<bool()>>(std::move(work)));
}

void MessageLinks::close() {
  if (!state_->thread.joinable()) return;
  constexpr int kPatienceMs = 2000;
  state_->in_order([state = state_.get()] {
    for (const auto& link : state->links)
      if (link) link->announce_end();
    state->leave(kPatienceMs);
  });
  state_->thread.join();
  state_->finish();
}

}  // namespace strata::rpc
