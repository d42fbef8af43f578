// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>

#include "core.hpp"
#include "strata/rpc/autograd.hpp"
#include "strata/util/error.hpp"

/// A backward pass has two phases. First its roots are followed down to the tensors that other ranks sent,
/// and from there on those ranks, so that every rank knows which gradients it will get and what each leaf
/// needs. Then gradients travel: a rank sends those of a message's tensors back once all that they need has
/// come, and its parameters have theirs when all has come. Each call of both phases returns when the calls
/// that it caused have, so the first one returns when the pass is over (Dijkstra and Scholten, 1980).
namespace strata::rpc {
namespace {

struct PassId {
  ContextId context;
  PassNumber number = {};
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(context, number);
  }
};

std::shared_ptr<ContextState> state_of(Core& core, const ContextId& id) {
  std::shared_ptr<ContextState> state = core.contexts().find(id);
  if (!state) throw CommError("a backward pass came to a rank after its context had ended there");
  return state;
}

InputError no_context(const Core& core, const ContextId& id) {
  const char* fault = core.contexts().has_ended(id) ? "has ended" : "was never begun";
  return InputError(fmt::format("autograd context {} of {} {}", id.number, core.describe(id.creator), fault),
                    "Take gradients and steps of an optimizer within the context of their backward pass.");
}

template <typename... P, typename... A>
Future<void> call(Core& core, int to, bool is_answer, void (*function)(P...), const A&... arguments) {
  const std::string& name = core.registry().name_of(function);
  Packing packing(core, {.rank = to, .function = name, .is_answer = is_answer, .copies = false});
  return detail::future_of<void>(
      core.call({.to = to, .function = name, .target = nullptr, .arguments = packing.pack(arguments...)}));
}

/// Checks a context on the rank that began it.
void check_context(const ContextId& id) {
  Core& core = *working_core();
  if (!core.contexts().find(id)) throw no_context(core, id);
}

void follow_link(const PassId& pass, std::uint64_t number);
void take_gradients(const PassId& pass, std::uint64_t number, const std::vector<at::Tensor>& gradients);

/// Runs the first phase from an entry of this rank.
void follow(Core& core, ContextState& state, const PassId& pass, EntryNumber entry,
            std::vector<at::Tensor> outputs) {
  std::vector<Future<void>> calls;
  for (const LinkId& link : state.enter(pass.number, entry, std::move(outputs)))
    calls.push_back(call(core, link.sender, false, &follow_link, pass, link.number));
  wait_for_all(std::move(calls));
}

/// Runs the second phase.
void send_back(Core& core, ContextState& state, const PassId& pass, EntryNumber entry,
               std::vector<at::Tensor> gradients) {
  std::vector<Future<void>> calls;
  for (const auto& departure : state.arrive(core, pass.number, entry, std::move(gradients))) {
    // Gradients of tensors that came with a call return by its caller's device map, as an answer does.
    const bool as_answer = !departure.by_answer;
    calls.push_back(call(core, departure.link.sender, as_answer, &take_gradients, pass, departure.link.number,
                         departure.gradients));
  }
  wait_for_all(std::move(calls));
}

void follow_link(const PassId& pass, std::uint64_t number) {
  Core& core = *working_core();
  const std::shared_ptr<ContextState> state = state_of(core, pass.context);
  follow(core, *state, pass, number, state->sent(number));
}

void take_gradients(const PassId& pass, std::uint64_t number, const std::vector<at::Tensor>& gradients) {
  Core& core = *working_core();
  send_back(core, *state_of(core, pass.context), pass, number, gradients);
}

void check_roots(const std::vector<at::Tensor>& roots) {
  if (roots.empty()) throw InputError("backward() without roots", "Give the loss.");
  for (const at::Tensor& root : roots) {
    if (root.numel() != 1)
      throw InputError(fmt::format("a root of backward() has {} elements", root.numel()),
                       "Give the loss: a sum or mean of one element.");
    if (!root.requires_grad())
      throw InputError("a root of backward() depends on nothing that needs a gradient");
  }
}

}  // namespace

std::shared_ptr<ContextState> open_context(Core& core, const ContextId& id) {
  if (std::shared_ptr<ContextState> state = core.contexts().find(id)) return state;
  if (id.creator < 0 || id.creator >= core.size())
    throw InputError(
        fmt::format("an autograd context of rank {}; there are {} ranks", id.creator, core.size()),
        "Give the id of a context that has begun.");
  if (id.creator == core.rank() || core.contexts().has_ended(id)) throw no_context(core, id);
  call(core, id.creator, false, &check_context, id).wait();
  return nullptr;
}

void add_backward_calls(Registry& registry) {
  registry.function("strata::check_context", &check_context);
  registry.function("strata::follow_link", &follow_link);
  registry.function("strata::take_gradients", &take_gradients);
}

AutogradContext::AutogradContext(const Agent& agent)
    : agent_(agent),
      core_(detail::core_of(agent)),
      id_(core_->begin_context()),
      working_(std::make_unique<WorkFor>(*core_, id_)) {}

AutogradContext::~AutogradContext() {
  working_.reset();
  core_->end_context(id_);
}

ContextId AutogradContext::id() const { return id_; }

void AutogradContext::backward(const std::vector<at::Tensor>& roots) { rpc::backward(agent_, id_, roots); }

std::vector<Gradient> AutogradContext::gradients() const { return rpc::gradients(agent_, id_); }

void backward(const Agent& agent, const ContextId& id, const std::vector<at::Tensor>& roots) {
  check_roots(roots);
  Core& core = *detail::core_of(agent);
  const WorkFor itself(core, {});
  std::shared_ptr<ContextState> state = open_context(core, id);
  if (!state) state = core.contexts().join(id);
  if (!state) throw no_context(core, id);
  const PassId pass{.context = id, .number = core.contexts().next_pass()};
  follow(core, *state, pass, kRoots, roots);
  std::vector<at::Tensor> ones;
  for (const at::Tensor& root : roots) ones.push_back(at::ones_like(root));
  send_back(core, *state, pass, kRoots, std::move(ones));
}

std::vector<Gradient> gradients(const Agent& agent, const ContextId& id) {
  const std::shared_ptr<ContextState> state = open_context(*detail::core_of(agent), id);
  return state ? state->gradients() : std::vector<Gradient>{};
}

ContextId current_context(const Agent& agent) { return current_context(*detail::core_of(agent)); }

}  // namespace strata::rpc
