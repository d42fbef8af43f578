// SPDX-License-Identifier: Apache-2.0
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <unordered_set>

#include "autograd/contexts.hpp"
#include "core.hpp"
#include "strata/util/error.hpp"

namespace strata::rpc {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

/// The leaves that the outputs depend on.
std::vector<at::Tensor> leaves_below(const std::vector<at::Tensor>& outputs) {
  std::vector<at::Tensor> leaves;
  std::vector<std::shared_ptr<Node>> open;
  std::unordered_set<const Node*> seen;
  const auto visit = [&](const std::shared_ptr<Node>& node) {
    if (node && seen.insert(node.get()).second) open.push_back(node);
  };
  for (const at::Tensor& output : outputs)
    if (output.requires_grad()) visit(torch::autograd::impl::gradient_edge(output).function);
  while (!open.empty()) {
    const std::shared_ptr<Node> node = std::move(open.back());
    open.pop_back();
    if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get()))
      leaves.push_back(leaf->variable);
    for (const Edge& edge : node->next_edges()) visit(edge.function);
  }
  return leaves;
}

/// Whether the leaf's accumulation has hooks; those of the tensor itself run wherever a gradient is found.
bool has_hooks(const at::Tensor& leaf) {
  const std::shared_ptr<Node> accumulator = torch::autograd::impl::grad_accumulator(leaf);
  return !accumulator->pre_hooks().empty() || !accumulator->post_hooks().empty() ||
         accumulator->tensor_post_acc_grad_hooks() != nullptr;
}

}  // namespace

/// A part of a pass that can run: the links whose leaves come first among the inputs, and then parameters.
struct ContextState::Run {
  std::vector<at::Tensor> outputs, gradients, inputs;
  std::vector<LinkId> links;
  bool is_last = false;

  std::vector<at::Tensor> results() const {
    if (outputs.empty() || inputs.empty()) return std::vector<at::Tensor>(inputs.size());
    // The graph stays for what enters later; the end of the context frees it.
    return torch::autograd::grad(outputs, inputs, gradients, /*retain_graph=*/true, /*create_graph=*/false,
                                 /*allow_unused=*/true);
  }
};

void ContextState::add_sent(std::uint64_t number, std::vector<at::Tensor> tensors) {
  const std::lock_guard lock(mutex_);
  sent_.emplace(number, std::move(tensors));
}

void ContextState::add_received(LinkId link, ReceivedLink received) {
  const std::lock_guard lock(mutex_);
  for (const at::Tensor& leaf : received.leaves) leaves_.emplace(leaf.unsafeGetTensorImpl(), link);
  received_.emplace(link, std::move(received));
}

std::vector<at::Tensor> ContextState::sent(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return sent_.at(number);
}

std::vector<LinkId> ContextState::enter(const PassNumber& number, EntryNumber entry,
                                        std::vector<at::Tensor> outputs) {
  const std::vector<at::Tensor> leaves = leaves_below(outputs);
  const std::lock_guard lock(mutex_);
  Pass& pass = passes_[number];
  pass.entries[entry].outputs = std::move(outputs);
  std::vector<LinkId> fresh;
  for (const at::Tensor& leaf : leaves) {
    const auto received = leaves_.find(leaf.unsafeGetTensorImpl());
    if (received == leaves_.end()) {
      pass.parameters.emplace(leaf.unsafeGetTensorImpl(), leaf);
      continue;
    }
    const auto [exit, is_new] = pass.exits.try_emplace(received->second);
    exit->second.needs.insert(entry);
    if (is_new) fresh.push_back(received->second);
  }
  return fresh;
}

Pass& ContextState::find(const PassNumber& number) {
  const auto found = passes_.find(number);
  if (found == passes_.end()) throw CommError("gradients came for a backward pass that has ended");
  return found->second;
}

/// The part that can run since the last gradients came.
ContextState::Run ContextState::next_run(Pass& pass) {
  Run run;
  run.is_last = std::ranges::all_of(pass.entries, [](const auto& each) { return each.second.arrived; });
  const auto has_arrived = [&](EntryNumber entry) { return pass.entries.at(entry).arrived; };
  std::set<EntryNumber> needs;
  for (auto& [link, exit] : pass.exits) {
    if (exit.left || !std::ranges::all_of(exit.needs, has_arrived)) continue;
    exit.left = true;
    needs.insert(exit.needs.begin(), exit.needs.end());
    run.links.push_back(link);
    const std::vector<at::Tensor>& leaves = received_.at(link).leaves;
    run.inputs.insert(run.inputs.end(), leaves.begin(), leaves.end());
  }
  for (const auto& [number, entry] : pass.entries) {
    if (!run.is_last && !needs.contains(number)) continue;
    for (std::size_t i = 0; i < entry.outputs.size(); ++i) {
      if (!entry.gradients.at(i).defined()) continue;
      run.outputs.push_back(entry.outputs[i]);
      run.gradients.push_back(entry.gradients[i]);
    }
  }
  if (run.is_last)
    for (const auto& [impl, leaf] : pass.parameters) run.inputs.push_back(leaf);
  return run;
}

std::vector<ContextState::Departure> ContextState::arrive(Core& core, const PassNumber& number,
                                                          EntryNumber entry,
                                                          std::vector<at::Tensor> gradients) {
  Run run;
  {
    const std::lock_guard lock(mutex_);
    Pass& pass = find(number);
    pass.entries.at(entry).gradients = std::move(gradients);
    pass.entries.at(entry).arrived = true;
    run = next_run(pass);
    if (run.is_last) passes_.erase(number);
  }
  const bool has_hooked = !run.outputs.empty() && std::ranges::any_of(run.inputs, has_hooks);
  std::optional<ParameterLock> parameters;
  if (has_hooked) parameters.emplace(core.shared_from_this(), run.inputs);
  const std::vector<at::Tensor> results = has_hooked ? accumulated(run) : run.results();
  const std::lock_guard lock(mutex_);
  std::vector<Departure> departures;
  auto result = results.begin();
  for (const LinkId& link : run.links) {
    const ReceivedLink& received = received_.at(link);
    const auto end = result + std::ssize(received.leaves);
    departures.push_back({.link = link, .by_answer = received.by_answer, .gradients = {result, end}});
    result = end;
  }
  for (auto input = run.inputs.begin() + (result - results.begin()); input != run.inputs.end();
       ++input, ++result) {
    // The accumulated gradient contains what the context had.
    if (has_hooked && has_hooks(*input)) gradients_.erase(input->unsafeGetTensorImpl());
    if (result->defined()) add_gradient(*input, *result);
  }
  return departures;
}

/// Does the same as Run::results(), but accumulates into the leaves, so that their hooks run, which may wait
/// for other ranks. Meanwhile at::Tensor::grad() of a leaf with hooks is what the context has.
std::vector<at::Tensor> ContextState::accumulated(const Run& run) const {
  const Workers::Waiting waiting;
  std::vector<at::Tensor> before;
  for (const at::Tensor& leaf : run.inputs) before.push_back(leaf.grad());
  const auto restore = c10::make_scope_exit([&] {
    for (std::size_t i = 0; i < before.size(); ++i) run.inputs[i].mutable_grad() = before[i];
  });
  {
    const std::lock_guard lock(mutex_);
    for (const at::Tensor& leaf : run.inputs) {
      const auto known = gradients_.find(leaf.unsafeGetTensorImpl());
      const bool is_known = known != gradients_.end() && has_hooks(leaf);
      leaf.mutable_grad() = is_known ? known->second.gradient.clone() : at::Tensor();
    }
  }
  torch::autograd::backward(run.outputs, run.gradients, /*retain_graph=*/true, /*create_graph=*/false,
                            run.inputs);
  std::vector<at::Tensor> found;
  for (const at::Tensor& leaf : run.inputs) found.push_back(leaf.grad());
  return found;
}

void ContextState::add_gradient(const at::Tensor& parameter, const at::Tensor& gradient) {
  const auto [known, is_new] =
      gradients_.try_emplace(parameter.unsafeGetTensorImpl(), Gradient{parameter, gradient});
  if (!is_new) known->second.gradient = known->second.gradient + gradient;
}

std::vector<Gradient> ContextState::gradients() const {
  const std::lock_guard lock(mutex_);
  std::vector<Gradient> gradients;
  for (const auto& [impl, gradient] : gradients_) gradients.push_back(gradient);
  return gradients;
}

}  // namespace strata::rpc
