// SPDX-License-Identifier: Apache-2.0
#include "core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "strata/util/error.hpp"
#include "strata/util/log.hpp"
#include "wire.hpp"

namespace strata::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::vector<std::vector<DeviceMap>> all_maps(const std::vector<AgentFacts>& agents) {
  std::vector<std::vector<DeviceMap>> maps;
  for (std::size_t r = 0; r < agents.size(); ++r) maps.push_back(maps_of(static_cast<int>(r), agents));
  return maps;
}

/// The name of a call for messages.
std::string name_of(const std::string& what, const std::string& function) {
  if (!what.empty()) return what;
  return function.empty() ? "to_here" : function;
}

/// The device of the first tensor that arrives on a GPU; empty if there is none.
std::string device_of(const Parcel& parcel) {
  const auto found = std::ranges::find_if(parcel.tensors,
                                          [](const TensorPiece& each) { return each.destination.is_cuda(); });
  return found == parcel.tensors.end() ? std::string() : found->destination.str();
}

}  // namespace

Core::Core(Setup setup)
    : setup_(std::move(setup)),
      maps_(all_maps(setup_.agents)),
      workers_(std::make_shared<Workers>(setup_.options.threads, setup_.busy_poll)),
      contexts_(setup_.rank),
      unanswered_(setup_.agents.size()) {}

std::string Core::describe(int rank) const {
  return fmt::format("{} (rank {}, host {})", agent(rank).name, rank, agent(rank).host);
}

void Core::start(std::unique_ptr<Channels> channels, std::unique_ptr<MessageLinks> links) {
  channels_ = std::move(channels);
  pieces_.emplace(*channels_, [this](int peer, const Piece& piece) {
    send(peer, {.kind = Kind::piece}, {.payload = text_of(piece)});
  });
  connect_network();
  links_ = std::move(links);
  links_->start(*this);
  links_->repeat(kTick, [this] { return expire(); });
}

const DeviceMap& Core::map_for(const Destination& destination) const {
  const auto self = at(rank()), peer = at(destination.rank);
  return destination.is_answer ? maps_[peer][self] : maps_[self][peer];
}

std::optional<int> Core::placed(const Destination& destination, int index) const {
  const DeviceMap& map = map_for(destination);
  return destination.is_answer ? map.to_caller(index) : map.to_peer(index);
}

// ---- calls of this rank ----

std::uint64_t Core::begin_call(const Request& request, std::shared_ptr<Answer>& answer) {
  const bool waits_for_room = !Workers::is_worker();
  Lock lock(mutex_);
  changed_.wait(lock, [&] {
    return !waits_for_room || closed_ || static_cast<int>(pending_.size()) < options().max_outstanding;
  });
  if (closed_) throw CommError("a call after the end of the agent");
  if (const auto found = lost_.find(request.to); found != lost_.end())
    std::rethrow_exception(loss_of(request.to));
  answer = std::make_shared<Answer>(workers_, weak_from_this(), request.to);
  const std::uint64_t id = next_++;
  const milliseconds timeout = request.timeout.value_or(CallTimeout::of_thread().value_or(options().timeout));
  const auto now = steady_clock::now();
  pending_.emplace(id, Pending{.answer = answer,
                               .to = request.to,
                               .what = name_of(request.what, request.function),
                               .timeout = timeout,
                               .begun = now,
                               .deadline = now + timeout,
                               .target = request.target});
  return id;
}

std::shared_ptr<Answer> Core::call(Request request) {
  std::shared_ptr<Answer> answer;
  const std::uint64_t id = begin_call(request, answer);
  Head head{.kind = request.function.empty() ? Kind::fetch : Kind::call,
            .id = id,
            .function = request.function,
            .what = request.what};
  if (request.target) head.target = request.target->object();
  send(request.to, std::move(head), std::move(request.arguments));
  return answer;
}

std::shared_ptr<Holding> Core::create(Request request) {
  std::shared_ptr<Answer> answer;
  const std::uint64_t id = begin_call(request, answer);
  std::shared_ptr<Holding> holding;
  {
    Lock lock(mutex_);
    holding = hold(lock, {.owner = request.to, .creator = rank(), .number = next_++}, false);
  }
  Head head{.kind = Kind::create,
            .id = id,
            .function = request.function,
            .what = request.what,
            .created = holding->object(),
            .fork = holding->fork()};
  if (request.target) head.target = request.target->object();
  send(request.to, std::move(head), std::move(request.arguments));
  return holding;
}

/// Ends the process if a GPU waits for ever: no call of CUDA releases a stream that waits for an event of a
/// process that is gone, so anything that waits for the stream would hang.
void Core::end_if_a_gpu_waits_for_ever() const {
  const std::optional<int> peer = channels_->awaited_lost_peer();
  if (!peer) return;
  spdlog::critical(
      "rpc: {}: a GPU waits for a tensor that {} sent or read when it ended, which never completes: this "
      "process ends, too",
      describe(rank()), describe(*peer));
  spdlog::default_logger()->flush();
  std::_Exit(EXIT_FAILURE);
}

bool Core::expire() {
  end_if_a_gpu_waits_for_ever();
  listen();
  std::vector<Pending> expired;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    const auto now = steady_clock::now();
    for (auto each = pending_.begin(); each != pending_.end();) {
      if (each->second.deadline > now) {
        ++each;
        continue;
      }
      expired.push_back(std::move(each->second));
      each = pending_.erase(each);
    }
    if (!expired.empty()) changed_.notify_all();
  }
  for (const Pending& call : expired) {
    fail(call, std::make_exception_ptr(
                   CommError(fmt::format("{} was not answered by {} within {} ms", call.what,
                                         describe(call.to), call.timeout.count()),
                             "A longer timeout in the agent's options gives calls more time.")));
  }
  return true;
}

// ---- messages ----

Unpacking Core::unpacking(Parcel parcel, int from, bool by_answer) {
  const ContextId id = parcel.context;
  const LinkId link{.sender = from, .number = parcel.link};
  Unpacking unpacking(std::move(parcel));
  if (link.number == 0) return unpacking;
  if (const std::shared_ptr<ContextState> context = contexts_.join(id))
    context->add_received(link, {.leaves = unpacking.leaves(), .by_answer = by_answer});
  return unpacking;
}

ContextId Core::begin_context() {
  const std::lock_guard lock(mutex_);
  if (closed_) throw CommError("a context was made after the end of the agent");
  return contexts_.begin();
}

void Core::end_context(const ContextId& id) noexcept try {
  forget(id, rank());
} catch (const std::exception& error) {  // no memory; the others keep it until this rank's agent ends
  spdlog::warn("rpc: {}: the end of an autograd context was not sent to the others: {}", describe(rank()),
               error.what());
}

void Core::forget(const ContextId& id, int from) {
  const std::set<int> peers = contexts_.end(id);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
  }
  for (const int to : peers)
    if (to != from) send(to, {.kind = Kind::forget, .context = id});
}

void Core::dispatch(int from, Head head, Parcel parcel) {
  const Kind kind = head.kind;
  switch (kind) {
    case Kind::call:
    case Kind::create:
    case Kind::fetch:
      queue({.from = from, .head = std::move(head), .parcel = std::move(parcel)});
      break;
    case Kind::answer:
    case Kind::failure:
      answer(head, std::move(parcel));
      break;
    case Kind::hold:
      enter(head.target, from, head.fork);
      send(from, {.kind = Kind::held, .fork = head.fork});
      break;
    case Kind::held:
      entered(head.fork);
      break;
    case Kind::taken:
      taken(head.id);
      break;
    case Kind::drop:
      leave(head.target, from, head.fork);
      break;
    case Kind::forget:
      forget(head.context, from);
      break;
    case Kind::piece:
    case Kind::emptied:
    case Kind::network_piece:
    case Kind::route_note:  // of tensors that still arrive, see messages.cpp
    case Kind::ask_alive:
    case Kind::alive:
    case Kind::ending:  // which wait for no tensors, see messages.cpp
      break;
    case Kind::state:
      receive_state(from, parse<RestState>(parcel.payload));
      break;
    case Kind::verdict:
      receive_verdict(parse<Verdict>(parcel.payload));
      break;
  }
  const std::lock_guard lock(mutex_);
  if (is_counted(kind)) ++received_;  // after what it caused is counted as sent or as work
}

void Core::answer(const Head& head, Parcel parcel) {
  Pending call;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(head.id);
    if (found == pending_.end()) return;  // it came too late
    call = std::move(found->second);
    pending_.erase(found);
    changed_.notify_all();
  }
  if (head.kind == Kind::answer)
    succeed(call, head, std::move(parcel));
  else
    fail(call, exception_of(head.failure));
}

// ---- calls of other ranks ----

void Core::queue(Task task) {
  const auto shared = std::make_shared<Task>(std::move(task));
  std::function<void()> work = [self = shared_from_this(), shared] { self->run(std::move(*shared)); };
  if (shared->head.kind == Kind::create) {
    const Head& head = shared->head;
    enter(head.created, shared->from, head.fork);
    send(shared->from, {.kind = Kind::held, .fork = head.fork});
  }
  {
    const std::lock_guard lock(mutex_);
    const auto target = objects_.kept.find(shared->head.target);
    if (target != objects_.kept.end() && !target->second.ready)
      return target->second.waiting.push_back(std::move(work));
  }
  workers_->push(std::move(work));
}

Object Core::target_of(const Task& task) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.kept.find(task.head.target);
  if (found == objects_.kept.end() || !found->second.ready) throw CommError("the object of a call is gone");
  if (found->second.error) std::rethrow_exception(found->second.error);
  return found->second.object;
}

Parcel Core::result_of(Task& task, Packing& packing) {
  Object self;
  if (task.head.target.owner >= 0) self = target_of(task);
  if (task.head.kind == Kind::fetch) {
    if (!self.pack) throw InputError("an object of this class cannot be copied to another rank");
    return self.pack(self.value.get(), packing);
  }
  Unpacking arguments = unpacking(std::move(task.parcel), task.from, false);
  const Registry::Entry& entry = registry().at(task.head.function);
  if (task.head.kind == Kind::create) {
    if (!entry.keep)
      throw InputError(fmt::format("{} returns nothing that could be kept", task.head.function));
    finish_creation(task.head.created, entry.keep(self.value.get(), arguments), nullptr);
    return {};
  }
  if (!entry.answer)
    throw InputError(fmt::format("{} makes objects; call it with remote()", task.head.function));
  return entry.answer(self.value.get(), arguments, packing);
}

void Core::run(Task task) {
  const Head& head = task.head;
  const WorkFor working(*this, head.context, device_of(task.parcel));
  try {
    Packing packing(*this,
                    {.rank = task.from, .function = name_of(head.what, head.function), .is_answer = true});
    Parcel result = result_of(task, packing);
    send(task.from, {.kind = Kind::answer, .id = head.id}, std::move(result));
  } catch (...) {
    Failure failure = failure_of(registry().translated(std::current_exception()));
    if (failure.rank < 0) {
      failure.rank = rank();
      failure.host = agent(rank()).host;
      failure.agent = agent(rank()).name;
      failure.device = working_device();
    }
    if (head.kind == Kind::create) finish_creation(head.created, {}, exception_of(failure));
    send(task.from, {.kind = Kind::failure, .id = head.id, .failure = std::move(failure)});
  }
}

void Core::finish_creation(const ObjectId& id, Object object, std::exception_ptr error) {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.kept.find(id);
    if (found == objects_.kept.end()) return;  // nobody has a handle any more
    found->second.ready = true;
    found->second.object = std::move(object);
    found->second.error = std::move(error);
    waiting.swap(found->second.waiting);
    changed_.notify_all();
  }
  for (std::function<void()>& work : waiting) workers_->push(std::move(work));
}

// ---- ranks that are gone ----

std::exception_ptr Core::loss_of(int rank) const {
  const std::string& reason = lost_.at(rank);
  if (!reason.empty())
    return std::make_exception_ptr(CommError(fmt::format("{} is gone: {}", describe(rank), reason)));
  const auto fault = ending_faults_.find(rank);
  return std::make_exception_ptr(
      CommError(fault == ending_faults_.end()
                    ? fmt::format("{} has ended its agent", describe(rank))
                    : fmt::format("{}; after that, {} has ended its agent", fault->second, describe(rank))));
}

void Core::lost(int peer, const std::string& reason) {
  std::vector<Pending> failed;
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    lost_.emplace(peer, reason);
    if (!reason.empty() && fault_.empty()) fault_ = fmt::format("{} is gone: {}", describe(peer), reason);
    error = loss_of(peer);
    for (auto each = pending_.begin(); each != pending_.end();) {
      if (each->second.to != peer) {
        ++each;
        continue;
      }
      failed.push_back(std::move(each->second));
      each = pending_.erase(each);
    }
    changed_.notify_all();
  }
  for (const Pending& call : failed) fail(call, error);
  channels_->lost(peer, reason.empty() ? Channels::Loss::ended_agent : Channels::Loss::died);
  pieces_->forget(peer);
  arrivals_.erase(peer);
  contexts_.end_all_of(peer);
  drop_handles_of(peer);
}

std::size_t Core::num_objects() const {
  const std::lock_guard lock(mutex_);
  return objects_.kept.size();
}

std::size_t Core::num_pending() const {
  const std::lock_guard lock(mutex_);
  return pending_.size();
}

std::shared_ptr<Completion> Core::promise() {
  auto promised = std::make_shared<Completion>(workers_);
  const std::lock_guard lock(mutex_);
  if (closed_) throw CommError("a call waits after the end of the agent");
  std::erase_if(promises_, [](const auto& each) { return each.expired(); });
  promises_.push_back(promised);
  return promised;
}

bool Core::end(std::optional<milliseconds> patience) {
  std::map<std::uint64_t, Pending> pending;
  std::vector<std::weak_ptr<Completion>> promises;
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = !std::exchange(closed_, true);
    pending.swap(pending_);
    promises.swap(promises_);
    changed_.notify_all();
  }
  if (!is_first) return workers_->join(patience);
  for (const auto& [id, call] : pending)
    fail(call, std::make_exception_ptr(
                   CommError(fmt::format("the agent ended before {} was answered", call.what))));
  pending.clear();
  for (const auto& each : promises)
    if (const auto promised = each.lock())
      promised->fail(std::make_exception_ptr(CommError("the agent ended while a call waited for a future")));
  announce_end();
  channels_->stop();
  links_->close();
  workers_->stop();
  const bool all_left = workers_->join(patience);
  Objects objects;  // which ends without the lock, because objects may hold handles
  {
    const std::lock_guard lock(mutex_);
    std::swap(objects, objects_);
  }
  return all_left;
}

}  // namespace strata::rpc
