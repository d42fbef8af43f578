// SPDX-License-Identifier: Apache-2.0
#include "autograd/contexts.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core.hpp"

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
  if (!id || is_among_ended(id)) return nullptr;
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

PassNumber Contexts::next_pass() {
  const std::lock_guard lock(mutex_);
  return {.starter = rank_, .number = next_pass_++};
}

bool Contexts::add_peer(const ContextId& id, int rank) {
  const std::lock_guard lock(mutex_);
  if (is_among_ended(id)) return false;
  peers_[id].insert(rank);
  return true;
}

std::set<int> Contexts::end(const ContextId& id) {
  std::shared_ptr<ContextState> last;  // its tensors are freed without the lock
  std::set<int> peers;
  const std::lock_guard lock(mutex_);
  ended_[id.creator].add(id.number);
  if (const auto noted = peers_.extract(id)) peers = std::move(noted.mapped());
  if (const auto known = known_.extract(id)) last = std::move(known.mapped());
  return peers;
}

bool Contexts::has_ended(const ContextId& id) const {
  const std::lock_guard lock(mutex_);
  return is_among_ended(id);
}

bool Contexts::is_among_ended(const ContextId& id) const {
  const auto ended = ended_.find(id.creator);
  return ended != ended_.end() && ended->second.contains(id.number);
}

void Contexts::end_all_of(int creator) {
  std::map<ContextId, std::shared_ptr<ContextState>> last;
  const std::lock_guard lock(mutex_);
  ended_[creator].below = std::numeric_limits<std::uint64_t>::max();
  std::erase_if(peers_, [creator](const auto& each) { return each.first.creator == creator; });
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

void Contexts::lock(const std::vector<at::Tensor>& parameters) {
  const auto all_are_free = [&] {
    return std::ranges::none_of(
        parameters, [this](const auto& each) { return locked_.contains(each.unsafeGetTensorImpl()); });
  };
  std::optional<Workers::Waiting> waiting;
  std::unique_lock lock(mutex_);
  if (!all_are_free()) waiting.emplace();
  unlocked_.wait(lock, all_are_free);
  for (const at::Tensor& each : parameters) locked_.insert(each.unsafeGetTensorImpl());
}

void Contexts::unlock(const std::vector<at::Tensor>& parameters) {
  const std::lock_guard lock(mutex_);
  for (const at::Tensor& each : parameters) locked_.erase(each.unsafeGetTensorImpl());
  unlocked_.notify_all();
}

ParameterLock::ParameterLock(std::shared_ptr<Core> core, const std::vector<at::Tensor>& parameters)
    : core_(std::move(core)), parameters_(parameters) {
  core_->contexts().lock(parameters_);
}
ParameterLock::~ParameterLock() { core_->contexts().unlock(parameters_); }

void Contexts::Ended::add(std::uint64_t number) {
  if (number >= below) others.insert(number);
  while (others.erase(below) > 0) ++below;
  if (others.size() > kMostOthers) others.erase(others.begin());
}

ContextId current_context(const Core& core) {
  const Current& current = own_current();
  return current.core == &core ? current.id : ContextId{};
}

Core* working_core() { return own_current().core; }

const std::string& working_device() { return own_current().device; }
void set_working_device(std::string device) { own_current().device = std::move(device); }

std::function<void()> for_current_context(std::function<void()> work) {
  Core* const core = working_core();
  if (core == nullptr) return work;
  return [kept = core->shared_from_this(), id = own_current().id, work = std::move(work)] {
    const WorkFor working(*kept, id);
    work();
  };
}

WorkFor::WorkFor(Core& core, const ContextId& id, std::string device)
    : before_(std::exchange(own_current(), Current{.core = &core, .id = id, .device = std::move(device)})) {}
WorkFor::~WorkFor() { own_current() = before_; }

}  // namespace strata::rpc
