// SPDX-License-Identifier: Apache-2.0
#include "autograd/contexts.hpp"

#include <limits>
#include <utility>

namespace strata::rpc {
namespace {

Current& own_current() {
  thread_local Current current;
  return current;
}

}  // namespace

ContextId Contexts::begin() {
  const std::lock_guard lock(mutex_);
  const ContextId id{.creator = rank_, .number = next_context_++};
  known_.emplace(id, std::make_shared<ContextState>());
  return id;
}

std::shared_ptr<ContextState> Contexts::join(const ContextId& id) {
  const std::lock_guard lock(mutex_);
  const auto ended = ended_.find(id.creator);
  if (!id || (ended != ended_.end() && ended->second.contains(id.number))) return nullptr;
  std::shared_ptr<ContextState>& known = known_[id];
  if (!known) known = std::make_shared<ContextState>();
  return known;
}

std::shared_ptr<ContextState> Contexts::find(const ContextId& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(id);
  return found == known_.end() ? nullptr : found->second;
}

std::uint64_t Contexts::next_link() {
  const std::lock_guard lock(mutex_);
  return next_link_++;
}

std::uint64_t Contexts::next_pass() {
  const std::lock_guard lock(mutex_);
  return next_pass_++;
}

void Contexts::end(const ContextId& id) {
  std::shared_ptr<ContextState> last;  // whose tensors are freed without the lock
  const std::lock_guard lock(mutex_);
  ended_[id.creator].add(id.number);
  const auto found = known_.find(id);
  if (found == known_.end()) return;
  last = std::move(found->second);
  known_.erase(found);
}

void Contexts::end_all_of(int creator) {
  std::map<ContextId, std::shared_ptr<ContextState>> last;
  const std::lock_guard lock(mutex_);
  ended_[creator].below = std::numeric_limits<std::uint64_t>::max();
  for (auto each = known_.begin(); each != known_.end();) {
    const auto next = std::next(each);
    if (each->first.creator == creator) last.insert(known_.extract(each));
    each = next;
  }
}

std::size_t Contexts::size() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

void Contexts::Ended::add(std::uint64_t number) {
  if (number >= below) others.insert(number);
  while (others.erase(below) > 0) ++below;
}

ContextId current_context(const Core& core) {
  const Current& current = own_current();
  return current.core == &core ? current.id : ContextId{};
}

Core* working_core() { return own_current().core; }

WorkFor::WorkFor(Core& core, const ContextId& id)
    : before_(std::exchange(own_current(), Current{.core = &core, .id = id})) {}
WorkFor::~WorkFor() { own_current() = before_; }

}  // namespace strata::rpc
