// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core.hpp"
#include "strata/util/error.hpp"
#include "strata/util/log.hpp"

namespace strata::rpc {

Holding::~Holding() { core_->release(*this); }

/// This rank's interest in an object: what it has already, or a new one.
std::shared_ptr<Holding> Core::hold(Lock&, const ObjectId& object, bool is_entered) {
  std::weak_ptr<Holding>& known = objects_.holdings[object];
  if (std::shared_ptr<Holding> holding = known.lock()) return holding;
  const std::uint64_t fork = next_++;
  auto holding = std::make_shared<Holding>(shared_from_this(), object, fork);
  objects_.forks.emplace(fork, Objects::Fork{.object = object, .entered = is_entered});
  known = holding;
  return holding;
}

std::shared_ptr<Holding> Core::keep(Object object) {
  Lock lock(mutex_);
  if (closed_) throw CommError("an object was shared after the end of the agent");
  const ObjectId id{.owner = rank(), .creator = rank(), .number = next_++};
  std::shared_ptr<Holding> holding = hold(lock, id, true);
  Objects::Kept& kept = objects_.kept[id];
  kept.ready = true;
  kept.object = std::move(object);
  kept.holders.emplace(rank(), holding->fork());
  return holding;
}

/// Takes a handle that a message brought.
std::shared_ptr<Holding> Core::adopt(int from, const HandleHead& head) {
  std::shared_ptr<Holding> holding;
  bool is_new = false, is_entered = false;
  {
    Lock lock(mutex_);
    const std::uint64_t before = next_;
    holding = hold(lock, head.object, false);
    is_new = next_ != before;
    const auto fork = objects_.forks.find(holding->fork());
    is_entered = fork == objects_.forks.end() || fork->second.entered || lost_.contains(head.object.owner);
    if (!is_entered) fork->second.to_take.emplace_back(from, head.pass);
  }
  if (is_entered) send(from, {.kind = Kind::taken, .id = head.pass});
  if (!is_new) return holding;
  if (head.object.owner == rank()) {
    enter(head.object, rank(), holding->fork());
    entered(holding->fork());
  } else {
    send(head.object.owner, {.kind = Kind::hold, .target = head.object, .fork = holding->fork()});
  }
  return holding;
}

/// Notes that a rank has handles of an object of this rank. The object may still have to be made, because the
/// message of its maker may come later.
void Core::enter(const ObjectId& object, int holder, std::uint64_t fork) {
  const std::lock_guard lock(mutex_);
  if (lost_.contains(holder)) return;
  Objects::Kept& kept = objects_.kept[object];
  kept.holders.emplace(holder, fork);
  if (!kept.ready && lost_.contains(object.creator)) {
    kept.ready = true;
    kept.error = loss_of(object.creator);
  }
}

/// Notes that the owner has entered this rank's handles.
void Core::entered(std::uint64_t id) {
  std::vector<std::pair<int, std::uint64_t>> to_take;
  std::optional<ObjectId> dropped;
  {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.forks.find(id);
    if (found == objects_.forks.end()) return;
    Objects::Fork& fork = found->second;
    fork.entered = true;
    to_take.swap(fork.to_take);
    if (fork.dropped) {
      dropped = fork.object;
      objects_.forks.erase(found);
    }
  }
  for (const auto& [from, pass] : to_take) send(from, {.kind = Kind::taken, .id = pass});
  if (dropped) send(dropped->owner, {.kind = Kind::drop, .target = *dropped, .fork = id});
}

bool Core::is_entered(const Holding& holding) const {
  const std::lock_guard lock(mutex_);
  const auto fork = objects_.forks.find(holding.fork());
  return fork != objects_.forks.end() && fork->second.entered;
}

void Core::taken(std::uint64_t pass) {
  Objects::Pass done;  // its handle ends without the lock
  const std::lock_guard lock(mutex_);
  const auto found = objects_.passes.find(pass);
  if (found == objects_.passes.end()) return;
  done = std::move(found->second);
  objects_.passes.erase(found);
}

/// Sends the owner that the last handle of this rank is gone.
void Core::release(const Holding& holding) noexcept try {
  {
    const std::lock_guard lock(mutex_);
    const auto known = objects_.holdings.find(holding.object());
    if (known != objects_.holdings.end() && known->second.expired()) objects_.holdings.erase(known);
    const auto found = objects_.forks.find(holding.fork());
    if (closed_ || found == objects_.forks.end()) return;
    if (!found->second.entered) {
      found->second.dropped = true;
      return;
    }
    objects_.forks.erase(found);
  }
  send(holding.object().owner, {.kind = Kind::drop, .target = holding.object(), .fork = holding.fork()});
} catch (const std::exception& error) {  // no memory; the owner keeps the object until this rank's agent ends
  spdlog::warn("rpc: {}: the end of a handle was not sent to its owner: {}", describe(rank()), error.what());
}

/// Notes that a rank has no handles of an object of this rank any more.
void Core::leave(const ObjectId& object, int holder, std::uint64_t fork) {
  std::shared_ptr<Object> ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.kept.find(object);
    if (found == objects_.kept.end()) return;
    found->second.holders.erase({holder, fork});
    if (!found->second.holders.empty()) return;
    ended = std::make_shared<Object>(std::move(found->second.object));
    objects_.kept.erase(found);
  }
  // The destructor of an object may take time, and call others.
  workers_->push([last = std::move(ended)]() mutable { last.reset(); });
}

void Core::drop_handles_of(int gone) {
  std::vector<Objects::Pass> passes;
  std::vector<std::pair<ObjectId, std::uint64_t>> left;
  std::vector<ObjectId> orphans;
  {
    const std::lock_guard lock(mutex_);
    for (auto each = objects_.passes.begin(); each != objects_.passes.end();) {
      if (each->second.to != gone) {
        ++each;
        continue;
      }
      passes.push_back(std::move(each->second));
      each = objects_.passes.erase(each);
    }
    for (const auto& [id, kept] : objects_.kept) {
      for (const auto& [holder, fork] : kept.holders)
        if (holder == gone) left.emplace_back(id, fork);
      if (!kept.ready && id.creator == gone) orphans.push_back(id);
    }
    // What that rank owned is gone, so no message about its handles is needed.
    std::erase_if(objects_.forks, [&](const auto& fork) { return fork.second.object.owner == gone; });
  }
  for (const ObjectId& id : orphans) {
    std::exception_ptr error;
    {
      const std::lock_guard lock(mutex_);
      error = loss_of(gone);
    }
    finish_creation(id, {}, error);
  }
  for (const auto& [id, fork] : left) leave(id, gone, fork);
}

Object Core::local(const Holding& holding) {
  if (holding.object().owner != rank()) {
    throw InputError(fmt::format("{} does not own this object, {} does", agent(rank()).name,
                                 agent(holding.object().owner).name),
                     "Copy it with to_here(), or call its methods.");
  }
  const Workers::Waiting waiting;
  Lock lock(mutex_);
  const auto is_ready = [&] {
    const auto found = objects_.kept.find(holding.object());
    return closed_ || (found != objects_.kept.end() && found->second.ready);
  };
  if (!changed_.wait_for(lock, options().timeout, is_ready))
    throw CommError(fmt::format("an object was not made within {} ms", options().timeout.count()));
  const auto found = objects_.kept.find(holding.object());
  if (found == objects_.kept.end()) throw CommError("an object was used after the end of the agent");
  if (found->second.error) std::rethrow_exception(found->second.error);
  return found->second.object;
}

}  // namespace strata::rpc
