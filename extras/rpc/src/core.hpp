// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/contexts.hpp"
#include "call_log.hpp"
#include "channels/channels.hpp"
#include "channels/pieces.hpp"
#include "failure.hpp"
#include "links/message_links.hpp"
#include "strata/rpc/agent.hpp"
#include "workers.hpp"

namespace strata::rpc {

/// The kind of a message.
enum class Kind : std::uint8_t {
  call,    ///< calls a function, or an object's method; answered
  create,  ///< the same, but the result stays here as an object; answered without it
  fetch,   ///< copies an object's value; answered
  answer,
  failure,
  hold,           ///< the sender has a handle of an object of this rank's
  held,           ///< the owner has noted it
  taken,          ///< the sender keeps the handle that was passed to it by itself
  drop,           ///< the sender no longer holds the handle
  forget,         ///< a context of the sender's has ended
  piece,          ///< of a tensor lies in a slot of the sender's
  emptied,        ///< the piece was copied out of its slot
  network_piece,  ///< of a tensor, with its bytes
  route_note,     ///< between the ends of a network route
  state,          ///< of a rank that shuts down, for rank 0
  verdict,        ///< of rank 0
  ask_alive,      ///< answered by the thread of the links, whatever calls do
  alive,
  ending  ///< the sender ends its agent because of a fault
};

/// The state of a rank that shuts down; see rest.cpp.
struct RestState {
  std::uint64_t round = 0, sent = 0, received = 0;
  std::int64_t handles = 0;
  bool idle = false;
  bool late = false;  ///< it has waited for the timeout of a call
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(round, sent, received, handles, idle, late);
  }
};
struct Verdict {
  std::uint64_t round = 0;
  bool at_rest = false;      ///< no call is under way anywhere
  std::int64_t handles = 0;  ///< of all ranks
  bool late = false;         ///< for some rank, and so for all
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(round, at_rest, handles, late);
  }
};

/// A tensor of a message, as its receiver makes it.
struct TensorHead {
  enum class Way : std::uint8_t {
    in_message,  ///< behind this head
    landed,      ///< in the zone of its sender, where it stays
    in_pieces,   ///< which follow as messages of their own
    on_gpu,      ///< landed in memory of the receiver's GPU
    in_gpu_pieces,
    in_staged_pieces,  ///< through host memory
    by_network,        ///< follows on a network route
  };
  std::int8_t dtype = 0;
  std::vector<std::int64_t> sizes;
  Device destination;
  bool requires_grad = false;
  Way way = Way::in_message;
  std::uint64_t offset = 0;    ///< of its room, if it has landed
  std::uint32_t route = 0;     ///< on a GPU, or of the network
  std::uint32_t gpu_card = 0;  ///< of its room there
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(dtype, sizes, destination, requires_grad, way, offset, route, gpu_card);
  }
};
std::size_t bytes_of(const TensorHead& head);
Channel channel_of(TensorHead::Way way);
/// A handle in a message, and the number under which its sender keeps it until it is taken.
struct HandleHead {
  ObjectId object;
  std::uint64_t pass = 0;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(object, pass);
  }
};

struct Head {
  Kind kind = Kind::call;
  std::uint64_t id = 0;       ///< of a call and its answer; of a pass in `taken`
  std::string function = {};  ///< of call and create
  std::string what = {};      ///< Request::what
  ObjectId target = {};       ///< the object of the method or of the value; of handles in hold, held, drop
  ObjectId created = {};      ///< of create
  std::uint64_t fork = 0;     ///< distinguishes the times that a rank had handles of an object
  std::string payload = {};
  std::uint64_t payload_in_bulk = 0;  ///< bytes, if it is too large for the head
  std::vector<TensorHead> tensors = {};
  std::vector<HandleHead> handles = {};
  Failure failure = {};
  ContextId context = {};      ///< that calls and answers belong to
  std::uint64_t link = 0;      ///< Parcel::link
  std::uint64_t transfer = 0;  ///< by which pieces find it
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(kind, id, function, what, target, created, fork, payload, payload_in_bulk, tensors, handles,
            failure, context, link, transfer);
  }
};
bool is_counted(Kind kind);

/// A message while its tensors arrive.
struct Arrival {
  Head head;
  std::vector<at::Tensor> tensors;
  std::vector<std::function<void(const at::Tensor&)>> waits;  ///< TensorPiece::wait
  std::uint64_t bytes_left = 0;                               ///< of the tensors that come in pieces
  bool has_room = true;
};

/// An answer that a call waits for.
class Answer final : public Completion {
 public:
  Answer(std::weak_ptr<Workers> workers, std::weak_ptr<Core> core, int from)
      : Completion(std::move(workers)), core_(std::move(core)), from_(from) {}
  std::shared_ptr<Core> core() const { return core_.lock(); }  ///< null if it is gone
  int from() const { return from_; }                           ///< the rank that was called
  void succeed_with(Parcel parcel) {
    finish(nullptr, [&] { parcel_ = std::move(parcel); });
  }
  Parcel take() { return std::move(parcel_); }  ///< once, when done

 private:
  const std::weak_ptr<Core> core_;
  const int from_;
  Parcel parcel_;
};

/// A rank's interest in an object: what all handles of the object on this rank share. Its end is sent to the
/// owner.
class Holding {
 public:
  Holding(std::shared_ptr<Core> core, ObjectId object, std::uint64_t fork)
      : core_(std::move(core)), object_(object), fork_(fork) {}
  ~Holding();
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  Core& core() const { return *core_; }
  const ObjectId& object() const { return object_; }
  std::uint64_t fork() const { return fork_; }

 private:
  const std::shared_ptr<Core> core_;
  const ObjectId object_;
  const std::uint64_t fork_;
};

/// The objects of this rank that handles refer to, and the handles of this rank.
///
/// The owner of an object keeps a list of the holders of handles: (rank, fork). A rank that passes a handle
/// on keeps its own until the receiver has entered itself in that list, and a rank leaves the list only after
/// it heard that it had been entered. So the list is never empty while a handle is anywhere, whatever order
/// messages arrive in. Everything here is called with the core's lock held.
struct Objects {
  struct Kept {
    bool ready = false;
    Object object;
    std::exception_ptr error;
    std::set<std::pair<int, std::uint64_t>> holders;
    std::vector<std::function<void()>> waiting;  ///< for it to become ready
  };
  struct Fork {
    ObjectId object;
    bool entered = false, dropped = false;
    std::vector<std::pair<int, std::uint64_t>> to_take = {};  ///< (rank, pass) to notify when it is entered
  };
  struct Pass {
    std::shared_ptr<Holding> holding;
    int to = 0;
  };
  std::map<ObjectId, Kept> kept;
  std::unordered_map<std::uint64_t, Fork> forks;
  std::map<ObjectId, std::weak_ptr<Holding>> holdings;
  std::unordered_map<std::uint64_t, Pass> passes;
};

/// The agent behind its interface. Its lock is never held while user code runs or a Holding ends.
class Core final : public MessageLinks::Receiver, public std::enable_shared_from_this<Core> {
 public:
  static constexpr std::chrono::milliseconds kTick{20};  ///< between looks for what is late

  struct Setup {
    std::vector<AgentFacts> agents;
    int rank = 0;
    Registry registry;
    std::chrono::nanoseconds busy_poll;
    Options options;
  };
  explicit Core(Setup setup);
  void start(std::unique_ptr<Channels> channels, std::unique_ptr<MessageLinks> links);

  int rank() const { return setup_.rank; }
  int size() const { return static_cast<int>(setup_.agents.size()); }
  const AgentFacts& agent(int rank) const { return setup_.agents[at(rank)]; }
  const std::vector<AgentFacts>& agents() const { return setup_.agents; }
  std::string describe(int rank) const;  ///< its name, rank and host
  const Registry& registry() const { return setup_.registry; }
  const Options& options() const { return setup_.options; }
  /// Where a tensor of this rank on cuda:`index` goes; nothing if it has no place there.
  std::optional<int> placed(const Destination& destination, int index) const;
  const DeviceMap& map_for(const Destination& destination) const;

  Channels& channels() { return *channels_; }
  const Channels& channels() const { return *channels_; }

  std::shared_ptr<Answer> call(Request request);
  std::shared_ptr<Holding> create(Request request);
  std::shared_ptr<Holding> keep(Object object);
  Object local(const Holding& holding);  ///< waits until it is ready
  std::size_t num_objects() const;
  std::size_t num_pending() const;

  Contexts& contexts() { return contexts_; }
  const Contexts& contexts() const { return contexts_; }
  ContextId begin_context();  ///< CommError after the end
  /// Unpacks a parcel from another rank; its tensors that require gradients become leaves of its context.
  Unpacking unpacking(Parcel parcel, int from, bool by_answer);
  void end_context(const ContextId& id) noexcept;  ///< on all ranks that have a part in it

  void shutdown(const std::function<void()>& drop_handles);  ///< graceful; see rest.cpp
  /// Ends the links and threads; what waits for others fails. Waits for calls that run here, for at most
  /// `patience` if there is one; returns whether none does. May be called again.
  bool end(std::optional<std::chrono::milliseconds> patience);
  /// Makes a promise for a call that waits for something else than another call; the end makes it fail.
  std::shared_ptr<Completion> promise();

  // Called on the thread of the links.
  MessageLinks::BulkMemory memory_for_bulk(int peer, const std::string& text) override;
  void arrived(int peer, std::string text, std::shared_ptr<void> memory) override;
  void lost(int peer, const std::string& reason) override;

  bool is_entered(const Holding& holding) const;  ///< the owner knows of it
  void release(const Holding& holding) noexcept;

 private:
  friend struct RestRound;
  struct Pending {
    std::shared_ptr<Answer> answer;
    int to = 0;
    std::string what;
    std::chrono::milliseconds timeout;
    std::chrono::steady_clock::time_point begun, deadline;
    std::shared_ptr<Holding> target;  ///< kept until it is answered
    Cargo cargo = {};                 ///< if it will be logged
  };
  struct Task {
    int from = 0;
    Head head;
    Parcel parcel;
  };
  using Lock = std::unique_lock<std::mutex>;

  /// Ends a context here, and on the ranks that this one has taken it to, except for the sender of the
  /// message.
  void forget(const ContextId& id, int from);

  // Messages
  void join_context(int to, Head& head, const Parcel& parcel);
  TensorHead load(int to, TensorPiece& piece, MessageLinks::Message& message);
  void receive_on_gpu(int peer, Arrival& arrival, std::size_t place);
  void send(int to, Head head, Parcel parcel = {});
  void check_ranks(const Head& head) const;
  std::string unreadable(int peer, const std::exception& error) const;  ///< warns of it, too
  void take(int peer, const std::string& text, std::shared_ptr<Arrival> arrival);
  void connect_network();
  Arrival& arrival_of(int peer, std::uint64_t transfer, std::uint64_t bytes);
  void take_piece(int peer, const Piece& piece);
  void take_network_piece(int peer, const Arrival& message);
  void send_piece(int to, const NetworkPiece& piece, StagedBytes bytes);
  void take_route_note(int peer, const RouteNote& note);
  void take_offer(int peer, const RouteNote& offer);
  void take_arrived(int peer, std::uint64_t transfer, std::uint64_t bytes);
  void open_complete(int peer);
  void open(int peer, Arrival& arrival);
  void refuse(int peer, const Head& head);
  void dispatch(int from, Head head, Parcel parcel);
  void run(Task task);
  Parcel result_of(Task& task, Packing& packing);
  Object target_of(const Task& task);
  void finish_creation(const ObjectId& id, Object object, std::exception_ptr error);
  void queue(Task task);
  void answer(const Head& head, Parcel parcel);
  void end_if_a_gpu_waits_for_ever() const;
  bool expire();
  std::exception_ptr loss_of(int rank) const;
  std::uint64_t begin_call(const Request& request, std::shared_ptr<Answer>& answer);
  void succeed(const Pending& call, const Head& head, Parcel parcel) const;
  void fail(const Pending& call, const std::exception_ptr& error) const;
  void note_cargo(std::uint64_t call, Cargo cargo);
  void log_end(const Pending& call, const std::string& outcome) const;

  // Handles
  std::shared_ptr<Holding> hold(Lock& lock, const ObjectId& object, bool entered);
  std::shared_ptr<Holding> adopt(int from, const HandleHead& head);
  void enter(const ObjectId& object, int rank, std::uint64_t fork);
  void entered(std::uint64_t fork);
  void leave(const ObjectId& object, int rank, std::uint64_t fork);
  void taken(std::uint64_t pass);
  void drop_handles_of(int rank);

  // Rest
  void receive_state(int from, const RestState& state);
  void receive_verdict(const Verdict& verdict);
  void listen();
  void note_fault(const std::string& fault);
  void announce_end() noexcept;
  RestState own_state(std::uint64_t round, bool late) const;
  Verdict agree(std::uint64_t round, bool late);

  const Setup setup_;
  std::vector<std::vector<DeviceMap>> maps_;  // [caller][callee]
  const std::shared_ptr<Workers> workers_;
  std::unique_ptr<Channels> channels_;
  std::unique_ptr<MessageLinks> links_;
  Contexts contexts_;

  // Used only by the thread of the links:
  std::optional<PieceSender> pieces_;
  std::map<int, std::deque<std::shared_ptr<Arrival>>> arrivals_;  // by peer, in order
  std::vector<std::int64_t> unanswered_;                          // by peer: times that listen() has asked
  std::uint64_t ticks_ = 0;                                       // of listen()

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool closed_ = false;
  std::uint64_t next_ = 1;
  std::uint64_t sent_ = 0, received_ = 0;
  std::map<std::uint64_t, Pending> pending_;
  std::vector<std::weak_ptr<Completion>> promises_;
  std::map<int, std::string> lost_;           // rank and reason
  std::map<int, std::string> ending_faults_;  // rank and the fault that made it end
  std::string fault_;                         // the first one: of a rank that is gone or silent
  bool awaits_end_ = false;                   // in shutdown()
  Objects objects_;
  std::map<int, RestState> states_;  // of rank 0
  std::vector<RestState> last_states_;
  std::optional<Verdict> verdict_;
};

}  // namespace strata::rpc
