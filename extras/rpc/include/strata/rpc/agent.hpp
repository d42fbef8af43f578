// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/comm/communicator.hpp"
#include "strata/rpc/channel.hpp"
#include "strata/rpc/device_map.hpp"
#include "strata/rpc/future.hpp"
#include "strata/rpc/parcel.hpp"
#include "strata/rpc/registry.hpp"
#include "strata/util/error.hpp"

namespace strata::rpc {

class Agent;
class Answer;

/// The error that a call threw on the rank that it ran on.
class RemoteError : public Error {
 public:
  struct Parts {
    std::string type, text, remedy;
    int rank = -1;
    std::string host, agent;
    std::string device = {};
  };
  explicit RemoteError(Parts parts);

  const std::string& type() const { return parts_.type; }  ///< "strata::InputError"
  const std::string& text() const { return parts_.text; }  ///< its message there
  int rank() const { return parts_.rank; }
  const std::string& host() const { return parts_.host; }
  const std::string& agent() const { return parts_.agent; }
  /// "cuda:1", as that rank numbers it: of the RemoteModule that was called, or of the first tensor that came
  /// on a GPU; empty if the call had neither.
  const std::string& device() const { return parts_.device; }

 private:
  Parts parts_;
};

struct Options {
  /// Calls that compute at a time on this rank; those that wait for other calls do not count.
  int threads = 16;
  std::chrono::milliseconds timeout{60000};  ///< of a call, from its start to its answer
  /// Most calls of this rank under way at a time. More wait, except those that a call makes.
  int max_outstanding = 1024;
  std::vector<AgentFacts::Map> device_maps = {};
  /// Channels that tensors may take; empty: all. Two ranks use the first one of the enumeration that both
  /// allow and have. If they have none for tensors on the CPU, all ranks refuse to start.
  std::vector<Channel> channels = {};
  /// Size of the host memory through which this rank's tensors reach others of its machine; the least of all
  /// ranks counts. A received tensor keeps its part until it dies; one that does not fit passes in pieces.
  /// Memory is taken from the system when it is used first. Where device maps join GPUs of a machine, as much
  /// GPU memory is taken at the start for tensors that this rank's GPUs receive.
  std::int64_t landing_bytes = std::int64_t{128} << 20;
  /// How long a thread that waits for a message, for work or for an answer polls before it sleeps:
  /// waking up takes 10 to 60 us, several times per call. Nothing: kBusyPoll where this rank has
  /// kPollingCores more than libtorch's threads take (at::set_num_threads), which wait for each other and so
  /// for one that has to share its core; otherwise 0.
  std::optional<std::chrono::microseconds> busy_poll = {};
  static constexpr std::chrono::microseconds kBusyPoll{200};
  static constexpr int kPollingCores = 3;  ///< for the threads that poll
  /// N: virtual machines of N consecutive ranks, which share no memory; see comm::TopologyOptions.
  int ranks_per_machine = 0;

  /// Maps devices of this rank to devices of `peer`; see DeviceMap. Each call adds.
  void set_device_map(const std::string& peer, std::vector<DevicePair> pairs) {
    device_maps.push_back({peer, std::move(pairs)});
  }
};

/// While it lives, calls that its thread makes have this timeout instead of Options::timeout. The calls that
/// those make on other ranks have the timeout of their own ranks. One made inside another hides it. Made and
/// used by one thread.
///
///     const rpc::CallTimeout timeout(2s);
///     agent.sync("worker1", &look_up, key);
class CallTimeout {
 public:
  explicit CallTimeout(std::chrono::milliseconds time);  ///< throws InputError unless it is positive
  ~CallTimeout();
  CallTimeout(const CallTimeout&) = delete;
  CallTimeout& operator=(const CallTimeout&) = delete;
  static std::optional<std::chrono::milliseconds> of_thread();

 private:
  const std::optional<std::chrono::milliseconds> before_;
};

/// Whether the caller waits with its tensors until the answer is there.
enum class Caller { waits, goes_on };

/// A call, ready to be sent.
struct Request {
  int to = 0;
  std::string function = {};             ///< empty: fetches the target's value
  std::string what = {};                 ///< for messages; empty: the function
  std::shared_ptr<Holding> target = {};  ///< the object of a method; null for a function
  Parcel arguments = {};
  std::optional<std::chrono::milliseconds> timeout = {};  ///< nothing: CallTimeout's, or Options::timeout
};

/// The work of handles and agents that needs no types.
namespace detail {
std::shared_ptr<Answer> call(Core& core, Request request);
std::shared_ptr<Holding> create(Core& core, Request request);
Unpacking take(Answer& answer);
/// Makes a promise for a call that waits for something else than another call; it fails when the agent ends.
std::shared_ptr<Completion> promise(Core& core);
std::shared_ptr<Completion> shared_completion(const std::shared_ptr<Answer>& answer);
std::shared_ptr<void> local_value(Core& core, const Holding& holding, std::type_index type);
const ObjectId& object_of(const Holding& holding);
Core& core_of(const Holding& holding);
bool is_entered(const Holding& holding);
int rank_of(const Core& core);
const AgentFacts& agent_of(const Core& core, int rank);
const Registry& registry_of(const Core& core);
std::shared_ptr<Core> core_of(const Agent& agent);

template <typename R>
Future<R> future_of(const std::shared_ptr<Answer>& answer) {
  return Future<R>(shared_completion(answer), [answer]() -> R {
    Unpacking unpacking = take(*answer);
    if constexpr (!std::is_void_v<R>) return std::get<0>(unpacking.unpack<R>());
  });
}
}  // namespace detail

/// A handle of an object that lies on some rank: copy it, drop it, pass it to other ranks in calls. The
/// object dies when the last handle anywhere is dropped. A rank that ends without notice drops its
/// handles. Thread safe as a shared_ptr is.
template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(std::shared_ptr<Holding> holding) : holding_(std::move(holding)) {}

  explicit operator bool() const { return holding_ != nullptr; }
  int owner() const { return detail::object_of(*holding_).owner; }  ///< its rank
  const std::string& owner_name() const { return detail::agent_of(core(), owner()).name; }
  bool is_owner() const { return owner() == detail::rank_of(core()); }
  bool is_confirmed() const {
    return detail::is_entered(*holding_);
  }  ///< whether the owner knows of this rank's handles
  const std::shared_ptr<Holding>& holding() const { return holding_; }  ///< what copies of this handle share

  /// The object itself, on its owner. Waits until it is made; throws what its creation threw.
  std::shared_ptr<T> local() const {
    return std::static_pointer_cast<T>(detail::local_value(core(), *holding_, typeid(T)));
  }
  /// A copy of the object, from wherever it lies.
  T to_here() const { return fetch().wait(); }
  Future<T> fetch() const {  ///< the same, without waiting
    return detail::future_of<T>(
        detail::call(core(), {.to = owner(), .function = {}, .target = holding_, .arguments = {}}));
  }

  /// Calls a method of the object, on its owner; see Agent.
  template <typename R, typename C, typename... P, typename... A>
  std::decay_t<R> sync(R (C::*method)(P...), const A&... arguments) const {
    return detail::future_of<std::decay_t<R>>(
               detail::call(core(), request<P...>(Caller::waits, method, arguments...)))
        .wait();
  }
  template <typename R, typename C, typename... P, typename... A>
  std::decay_t<R> sync(R (C::*method)(P...) const, const A&... arguments) const {
    return detail::future_of<std::decay_t<R>>(
               detail::call(core(), request<P...>(Caller::waits, method, arguments...)))
        .wait();
  }
  template <typename R, typename C, typename... P, typename... A>
  Future<std::decay_t<R>> async(R (C::*method)(P...), const A&... arguments) const {
    return detail::future_of<std::decay_t<R>>(
        detail::call(core(), request<P...>(Caller::goes_on, method, arguments...)));
  }
  template <typename R, typename C, typename... P, typename... A>
  Future<std::decay_t<R>> async(R (C::*method)(P...) const, const A&... arguments) const {
    return detail::future_of<std::decay_t<R>>(
        detail::call(core(), request<P...>(Caller::goes_on, method, arguments...)));
  }
  template <typename R, typename C, typename... P, typename... A>
  Ref<std::decay_t<R>> remote(R (C::*method)(P...), const A&... arguments) const {
    return Ref<std::decay_t<R>>(detail::create(core(), request<P...>(Caller::goes_on, method, arguments...)));
  }
  template <typename R, typename C, typename... P, typename... A>
  Ref<std::decay_t<R>> remote(R (C::*method)(P...) const, const A&... arguments) const {
    return Ref<std::decay_t<R>>(detail::create(core(), request<P...>(Caller::goes_on, method, arguments...)));
  }

  template <typename Archive>
  void save(Archive& archive) const {
    archive(owner_of<Packing>(archive).add(holding_));
  }
  template <typename Archive>
  void load(Archive& archive) {
    std::int32_t place = -1;
    archive(place);
    holding_ = owner_of<Unpacking>(archive).handle(place);
  }

 private:
  Core& core() const { return detail::core_of(*holding_); }
  template <typename... P, typename Method, typename... A>
  Request request(Caller caller, Method method, const A&... arguments) const {
    const std::string& name = detail::registry_of(core()).name_of(method);
    Packing packing(core(), {.rank = owner(), .function = name, .copies = caller == Caller::goes_on});
    return {.to = owner(),
            .function = name,
            .target = holding_,
            .arguments = packing.pack(static_cast<const std::decay_t<P>&>(arguments)...)};
  }

  std::shared_ptr<Holding> holding_;
};

/// This rank's end of calls between ranks.
///
///     rpc::Registry registry;
///     registry.function("add", &add).constructor<Shard, Device>("Shard");
///     registry.method("Shard::forward", &Shard::forward);
///     rpc::Agent agent(world.communicator(), fmt::format("worker{}", world.rank()), registry);
///     const int three = agent.sync("worker1", &add, 1, 2);
///     rpc::Ref<Shard> shard = agent.remote<Shard>("worker1", Device{});
///     const at::Tensor y = shard.sync(&Shard::forward, x);
///     agent.shutdown();
///
/// Peers are named as they named themselves, or "rank:R"; an agent may call itself. Calls run on threads of
/// the callee. Their arguments are values of the very types of the parameters, or convertible to them.
/// Tensors within one process are handed over without a copy. A CPU tensor that goes to another rank with
/// async() or remote() may be changed as soon as that call returns. What a call throws arrives as a
/// RemoteError; a rank that is gone, a timeout and a call after the end are CommErrors. Thread safe.
class Agent {
 public:
  /// Connects all ranks. Collective. Throws InputError on all ranks alike if names or device maps are wrong
  /// (check_agents).
  Agent(const comm::Communicator& communicator, const std::string& name, Registry registry,
        Options options = {});
  ~Agent();  ///< without shutdown(), waits for nobody
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  const std::string& name() const;
  int rank() const;
  int size() const;
  const AgentFacts& agent(int rank) const;
  /// The rank of a name, or of rank:R. Throws InputError if there is none.
  int find(const std::string& peer) const;

  /// Calls a function on `peer` and waits for its result.
  template <typename R, typename... P, typename... A>
  std::decay_t<R> sync(const std::string& peer, R (*function)(P...), const A&... arguments) {
    return detail::future_of<std::decay_t<R>>(
               detail::call(core(),
                            request<P...>(Caller::waits, peer, registry().name_of(function), arguments...)))
        .wait();
  }
  template <typename R, typename... P, typename... A>
  Future<std::decay_t<R>> async(const std::string& peer, R (*function)(P...), const A&... arguments) {
    return detail::future_of<std::decay_t<R>>(detail::call(
        core(), request<P...>(Caller::goes_on, peer, registry().name_of(function), arguments...)));
  }
  /// Calls a function on `peer`, where its result stays. Does not wait; errors come when the handle is used.
  template <typename R, typename... P, typename... A>
  Ref<std::decay_t<R>> remote(const std::string& peer, R (*function)(P...), const A&... arguments) {
    return Ref<std::decay_t<R>>(detail::create(
        core(), request<P...>(Caller::goes_on, peer, registry().name_of(function), arguments...)));
  }
  /// Makes a T on `peer` with the constructor that was registered. The arguments must have its very types.
  template <typename T, typename... A>
  Ref<T> remote(const std::string& peer, const A&... arguments) {
    return Ref<T>(detail::create(
        core(), request<A...>(Caller::goes_on, peer, registry().name_of_class<T>(), arguments...)));
  }
  /// A handle of an object of this rank's.
  template <typename T>
  Ref<T> share(std::shared_ptr<T> object) {
    return Ref<T>(keep(object_of(std::move(object))));
  }

  /// Numbers of what this rank keeps for others and waits for.
  struct Counts {
    std::size_t objects = 0;   ///< that handles refer to
    std::size_t calls = 0;     ///< that are not answered yet
    std::size_t contexts = 0;  ///< of backward passes
  };
  Counts counts() const;

  /// What this rank has sent to other ranks and received from them, by channel. Tensors that pass in pieces
  /// count once, and the messages about them count as TCP's.
  std::vector<Traffic> traffic() const;

  enum class Ending { graceful, after_own_calls, at_once };
  /// Ends the calls. Collective if graceful: returns on all ranks when no call is under way anywhere and no
  /// handle is left. Throws CommError if a rank is gone, or if handles are left after the timeout of a call.
  /// Once no call is under way anywhere, `drop_handles` may drop those that nobody will use any more.
  /// Otherwise calls under way fail here and at their peers; after_own_calls waits for those that run on this
  /// rank, at_once for nothing. Later calls are refused.
  void shutdown(Ending ending = Ending::graceful, const std::function<void()>& drop_handles = {});
  /// Ends as after_own_calls, but waits for `patience` at most; returns whether no call runs here any more.
  /// May be called again, and while another thread is in shutdown(), which throws then.
  bool end_within(std::chrono::milliseconds patience);

 private:
  friend std::shared_ptr<Core> detail::core_of(const Agent& agent);
  Core& core() const { return *core_; }
  const Registry& registry() const { return detail::registry_of(*core_); }
  std::shared_ptr<Holding> keep(Object object);
  template <typename... P, typename... A>
  Request request(Caller caller, const std::string& peer, const std::string& name, const A&... arguments) {
    const int to = find(peer);
    Packing packing(*core_, {.rank = to, .function = name, .copies = caller == Caller::goes_on});
    return {.to = to,
            .function = name,
            .target = nullptr,
            .arguments = packing.pack(static_cast<const std::decay_t<P>&>(arguments)...)};
  }

  std::shared_ptr<Core> core_;
};

}  // namespace strata::rpc
