// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "strata/rpc/autograd.hpp"

namespace strata::rpc {

/// Tensors that crossed ranks in one message, as their sender numbers them.
struct LinkId {
  int sender = -1;
  std::uint64_t number = 0;
  auto operator<=>(const LinkId&) const = default;
};

/// The leaves that tensors of a message became on this rank.
struct ReceivedLink {
  std::vector<at::Tensor> leaves;
  bool by_answer = false;  ///< of a call of this rank, so that this rank's device map holds
};

/// An entry of gradients into this rank's part of a backward pass: tensors that it sent, or the roots.
using EntryNumber = std::uint64_t;
constexpr EntryNumber kRoots = 0;  ///< links are numbered from 1

/// Names a backward pass within its context.
struct PassNumber {
  int starter = -1;          ///< the rank of its roots
  std::uint64_t number = 0;  ///< of those that this rank started
  auto operator<=>(const PassNumber&) const = default;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(starter, number);
  }
};

/// One backward pass on this rank. Guarded by its context.
struct Pass {
  struct Entry {
    std::vector<at::Tensor> outputs, gradients;
    bool arrived = false;
  };
  struct Exit {
    std::set<EntryNumber> needs;  ///< entries whose gradients reach the leaves
    bool left = false;
  };
  std::map<EntryNumber, Entry> entries;
  std::map<LinkId, Exit> exits;
  std::unordered_map<at::TensorImpl*, at::Tensor> parameters;  ///< leaves that no message brought
};

/// A context as this rank knows it. Thread safe.
class ContextState {
 public:
  /// Numbers are those of the sender, from 1.
  void add_sent(std::uint64_t number, std::vector<at::Tensor> tensors);
  void add_received(LinkId link, ReceivedLink received);

  /// Begins to run backward from an entry; returns the links that its outputs depend on and no entry before
  /// did.
  std::vector<LinkId> enter(const PassNumber& pass, EntryNumber entry, std::vector<at::Tensor> outputs);
  std::vector<at::Tensor> sent(std::uint64_t number) const;

  /// Gradients to send back.
  struct Departure {
    LinkId link;
    bool by_answer = false;
    std::vector<at::Tensor> gradients;  ///< undefined: none
  };
  /// Takes the gradients of an entry, undefined ones counting as zeros, and runs what can run now. The last
  /// one ends the pass here. Waits for other ranks if hooks of parameters do.
  std::vector<Departure> arrive(Core& core, const PassNumber& pass, EntryNumber entry,
                                std::vector<at::Tensor> gradients);

  std::vector<Gradient> gradients() const;

 private:
  struct Run;
  Run next_run(Pass& pass);
  std::vector<at::Tensor> accumulated(const Run& run) const;
  Pass& find(const PassNumber& pass);
  void add_gradient(const at::Tensor& parameter, const at::Tensor& gradient);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::vector<at::Tensor>> sent_;
  std::map<LinkId, ReceivedLink> received_;
  std::unordered_map<at::TensorImpl*, LinkId> leaves_;
  std::map<PassNumber, Pass> passes_;
  std::unordered_map<at::TensorImpl*, Gradient> gradients_;
};

/// The contexts that this rank has a part in. Thread safe.
class Contexts {
 public:
  explicit Contexts(int rank) : rank_(rank) {}

  ContextId begin();
  std::shared_ptr<ContextState> join(const ContextId& id);  ///< null if it has ended
  std::shared_ptr<ContextState> find(const ContextId& id) const;
  std::uint64_t next_link();
  PassNumber next_pass();
  /// Notes that this rank calls another one for the context; false if the context has ended.
  bool add_peer(const ContextId& id, int rank);
  /// Returns the ranks that add_peer() has noted.
  std::set<int> end(const ContextId& id);
  void end_all_of(int creator);
  bool has_ended(const ContextId& id) const;  ///< so far as this rank knows
  std::size_t size() const;

  void lock(const std::vector<at::Tensor>& parameters);  ///< waits; see ParameterLock
  void unlock(const std::vector<at::Tensor>& parameters);

 private:
  /// The contexts of a rank that have ended: those below a number, and some more.
  /// A rank learns only of those that it has a part in, so the oldest of many are dropped: none of their
  /// messages is still on its way.
  struct Ended {
    static constexpr std::size_t kMostOthers = 4096;
    std::uint64_t below = 1;
    std::set<std::uint64_t> others;
    bool contains(std::uint64_t number) const { return number < below || others.contains(number); }
    void add(std::uint64_t number);
  };
  bool is_among_ended(const ContextId& id) const;  // with the lock held

  const int rank_;
  mutable std::mutex mutex_;
  std::uint64_t next_context_ = 1, next_link_ = 1, next_pass_ = 1;
  std::map<ContextId, std::shared_ptr<ContextState>> known_;
  std::map<ContextId, std::set<int>> peers_;
  std::map<int, Ended> ended_;
  std::condition_variable unlocked_;
  std::unordered_set<const at::TensorImpl*> locked_;
};

/// The context that a thread works for.
struct Current {
  Core* core = nullptr;
  ContextId id;
  std::string device = {};  ///< for messages, as RemoteError::device()
};
ContextId current_context(const Core& core);
/// The core whose call this thread runs; null: none.
Core* working_core();
const std::string& working_device();
void set_working_device(std::string device);
/// Wraps `work` for another thread, which does it for the context that this thread works for.
std::function<void()> for_current_context(std::function<void()> work);

/// While it lives, this thread works for a context, or for none.
class WorkFor {
 public:
  WorkFor(Core& core, const ContextId& id, std::string device = {});
  ~WorkFor();
  WorkFor(const WorkFor&) = delete;
  WorkFor& operator=(const WorkFor&) = delete;

 private:
  const Current before_;
};

/// The state of a context that began on any rank; null if this rank has had no part in it. Throws InputError
/// if it has ended or was never begun; for that, the rank is asked that would have begun it.
std::shared_ptr<ContextState> open_context(Core& core, const ContextId& id);

/// Registers the calls that backward passes make.
void add_backward_calls(Registry& registry);

}  // namespace strata::rpc
