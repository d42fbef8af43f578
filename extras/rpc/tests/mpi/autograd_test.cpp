// SPDX-License-Identifier: Apache-2.0
#include "strata/rpc/autograd.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "support/mpi_world.hpp"

namespace strata::rpc {
namespace {

using namespace std::chrono_literals;
using test::world;

constexpr int kParameters = 3;  ///< of a rank
constexpr std::int64_t kWidth = 6;

/// Those of any rank, as every rank can make them.
std::vector<at::Tensor> parameters_of(int rank) {
  std::vector<at::Tensor> parameters;
  for (int k = 0; k < kParameters; ++k) {
    const at::Tensor values = at::sin(at::linspace(rank + 0.1, 7.0 + k, kWidth * kWidth, at::kDouble));
    parameters.push_back(values.view({kWidth, kWidth}).clone().set_requires_grad(true));
  }
  return parameters;
}

/// What the functions of this file need of the test.
struct Scene {
  std::atomic<Agent*> agent{nullptr};
  std::vector<at::Tensor> parameters;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators;  ///< which leaves do not keep
  std::atomic<int> hooks_begun{0};
};
Scene& scene() {
  static Scene instance;
  return instance;
}

Agent& agent_of_rank() { return *scene().agent.load(); }

/// A part of a computation that runs on one rank and calls others.
struct Step {
  int rank = 0, parameter = 0;
  bool is_used = true;
  std::vector<Step> next = {};
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(rank, parameter, is_used, next);
  }
};

template <typename Call>
at::Tensor compute(const Step& step, const at::Tensor& x, const at::Tensor& parameter, Call&& call) {
  const at::Tensor h = at::tanh(at::mm(x, parameter));
  at::Tensor sum = h;
  for (const Step& next : step.next) {
    const at::Tensor y = call(next, next.parameter % 2 == 0 ? h : x);
    if (next.is_used) sum = sum * y + y;
  }
  return sum;
}

at::Tensor visit(const Step& step, const at::Tensor& x) {
  return compute(step, x, scene().parameters[at(step.parameter)], [](const Step& next, const at::Tensor& y) {
    return agent_of_rank().sync(fmt::format("rank:{}", next.rank), &visit, next, y);
  });
}

/// The same in one process.
at::Tensor visit_here(const Step& step, const at::Tensor& x,
                      const std::vector<std::vector<at::Tensor>>& parameters) {
  const at::Tensor& own = parameters[at(step.rank)][at(step.parameter)];
  return compute(step, x, own,
                 [&](const Step& next, const at::Tensor& y) { return visit_here(next, y, parameters); });
}

/// Gradients of this rank's parameters; undefined for those that had no part.
std::vector<at::Tensor> gradients_here(const ContextId& id) {
  std::vector<at::Tensor> gradients(kParameters);
  for (const Gradient& each : rpc::gradients(agent_of_rank(), id))
    for (std::size_t k = 0; k < gradients.size(); ++k)
      if (each.parameter.is_same(scene().parameters[k])) gradients[k] = each.gradient;
  return gradients;
}

void learn(const ContextId& id, double rate) {
  const std::vector<at::Tensor> gradients = gradients_here(id);
  for (std::size_t k = 0; k < gradients.size(); ++k)
    if (gradients[k].defined()) scene().parameters[k].detach().sub_(rate * gradients[k]);
}

std::vector<at::Tensor> values_here() {
  std::vector<at::Tensor> values;
  for (const at::Tensor& parameter : scene().parameters) values.push_back(parameter.detach());
  return values;
}

at::Tensor fail_on_the_way_back(const at::Tensor& x) {
  const at::Tensor y = x * 2;
  y.register_hook([](const at::Tensor& gradient) -> at::Tensor {
    static_cast<void>(gradient);
    throw InputError("no way back", "Take another.");
  });
  return y;
}

void add_hook(int parameter, std::function<void(const at::Tensor&)> hook) {
  const at::Tensor& leaf = scene().parameters[at(parameter)];
  scene().accumulators.push_back(torch::autograd::impl::grad_accumulator(leaf));
  scene().accumulators.back()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [leaf, hook = std::move(hook)](const auto& outputs, const auto& inputs) {
        EXPECT_EQ(inputs.size(), 1U);
        hook(leaf);
        return outputs;
      }));
}
/// Changes gradients as a reduction over replicas does.
void take_tenfold(int parameter) {
  add_hook(parameter, [](const at::Tensor& leaf) { leaf.mutable_grad().mul_(10); });
}
int num_hooks_begun(int more) { return scene().hooks_begun += more; }
/// Waits in a hook as a reduction waits for the other replicas.
void wait_in_hook_of(int parameter, int replicas) {
  add_hook(parameter, [replicas](const at::Tensor&) {
    agent_of_rank().sync("rank:0", &num_hooks_begun, 1);
    while (agent_of_rank().sync("rank:0", &num_hooks_begun, 0) < replicas) std::this_thread::sleep_for(1ms);
  });
}

at::Tensor scale_in_place(at::Tensor x) { return x.mul_(2).add_(1); }

at::Tensor loss_of(const Step& step, const at::Tensor& x) { return visit(step, x).sum(); }
void run_backward(const ContextId& id, const Ref<at::Tensor>& root) {
  backward(agent_of_rank(), id, {*root.local()});
}

Registry registry() {
  Registry registry;
  registry.function("take_tenfold", &take_tenfold).function("wait_in_hook_of", &wait_in_hook_of);
  registry.function("num_hooks_begun", &num_hooks_begun);
  registry.function("scale_in_place", &scale_in_place);
  registry.function("loss_of", &loss_of).function("run_backward", &run_backward);
  registry.function("visit", &visit).function("gradients_here", &gradients_here).function("learn", &learn);
  registry.function("values_here", &values_here).function("fail_on_the_way_back", &fail_on_the_way_back);
  return registry;
}

class AutogradTest : public testing::Test {
 protected:
  void SetUp() override {
    scene().parameters = parameters_of(world().rank());  // before there are threads that read it
    agent_.emplace(world().communicator(), fmt::format("worker{}", world().rank()), registry(), Options{});
    scene().agent = &*agent_;
    world().communicator().barrier();
  }
  void TearDown() override {
    agent_->shutdown();
    EXPECT_EQ(agent_->counts().contexts, 0U);
    agent_.reset();
    scene().accumulators.clear();
  }
  static int next_rank() { return (world().rank() + 1) % world().size(); }
  static std::string next() { return fmt::format("worker{}", next_rank()); }
  static std::vector<std::vector<at::Tensor>> all_parameters() {
    std::vector<std::vector<at::Tensor>> all;
    for (int rank = 0; rank < world().size(); ++rank) all.push_back(parameters_of(rank));
    return all;
  }

  std::optional<Agent> agent_;
};

at::Tensor gradient_of(const AutogradContext& context, const at::Tensor& leaf) {
  for (const Gradient& each : context.gradients())
    if (each.parameter.is_same(leaf)) return each.gradient;
  return {};
}

Step random_step(std::mt19937& random, int depth) {
  Step step{.rank = static_cast<int>(random() % static_cast<unsigned>(world().size())),
            .parameter = static_cast<int>(random() % kParameters),
            .is_used = random() % 5 != 0};
  if (depth == 0) return step;
  for (auto i = random() % 3; i > 0; --i) step.next.push_back(random_step(random, depth - 1));
  return step;
}

std::vector<at::Tensor> losses_of(const at::Tensor& y) { return {y.sum(), (y * y).mean()}; }

/// A depth-first list of the gradients of all parameters, undefined ones included.
std::vector<at::Tensor> expected_gradients(const Step& step, const at::Tensor& x,
                                           const std::vector<std::vector<at::Tensor>>& parameters) {
  std::vector<at::Tensor> inputs;
  for (const auto& of_rank : parameters) inputs.insert(inputs.end(), of_rank.begin(), of_rank.end());
  inputs.push_back(x);
  return torch::autograd::grad(losses_of(visit_here(step, x, parameters)), inputs, {}, true, false, true);
}

TEST_F(AutogradTest, EqualsOneProcessOnRandomCalls) {
  const auto parameters = all_parameters();
  for (unsigned round = 0; round < 15; ++round) {
    const unsigned seed = round * 31 + static_cast<unsigned>(world().rank());
    std::mt19937 random(seed);
    const Step step = random_step(random, 4);
    const at::Tensor x =
        at::linspace(-1, 1, 4 * kWidth, at::kDouble).view({4, kWidth}).clone().set_requires_grad(true);
    const AutogradContext unrelated(*agent_);
    AutogradContext context(*agent_);
    EXPECT_EQ(current_context(*agent_), context.id());
    const at::Tensor y = agent_->sync(fmt::format("rank:{}", step.rank), &visit, step, x);
    context.backward(losses_of(y));

    const std::vector<at::Tensor> expected = expected_gradients(step, x, parameters);
    std::vector<at::Tensor> found;
    for (int rank = 0; rank < world().size(); ++rank)
      for (const at::Tensor& gradient :
           agent_->sync(fmt::format("rank:{}", rank), &gradients_here, context.id()))
        found.push_back(gradient);
    found.push_back(gradient_of(context, x));
    ASSERT_EQ(found.size(), expected.size()) << "seed " << seed;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(found[i].defined(), expected[i].defined()) << i << ", seed " << seed;
      if (expected[i].defined()) {
        EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-10, 1e-12)) << i << ", seed " << seed;
      }
    }
    EXPECT_TRUE(unrelated.gradients().empty());
    for (const at::Tensor& parameter : scene().parameters) EXPECT_FALSE(parameter.grad().defined());
  }
}

TEST_F(AutogradTest, TrainsTwoShardsToTheSameBits) {
  const Step second{.rank = next_rank(), .parameter = 1};
  // Each rank trains parameter 0 of its own and parameter 1 of the next one.
  const auto forward = [](const at::Tensor& x, const at::Tensor& own) { return at::tanh(at::mm(x, own)); };
  std::vector<std::vector<at::Tensor>> here = all_parameters();
  at::Tensor& first_here = here[at(world().rank())][0];
  at::Tensor& second_here = here[at(next_rank())][1];
  for (int step = 0; step < 20; ++step) {
    const at::Tensor x = at::linspace(step, -1, 4 * kWidth, at::kDouble).view({4, kWidth});
    AutogradContext context(*agent_);
    const at::Tensor y = agent_->sync(next(), &visit, second, forward(x, scene().parameters[0]));
    context.backward({y.sum()});
    learn(context.id(), 0.05);
    if (world().size() > 1) agent_->sync(next(), &learn, context.id(), 0.05);

    const at::Tensor y_here = forward(forward(x, first_here), second_here);
    EXPECT_TRUE(at::equal(y_here, y)) << "step " << step;
    const auto gradients = torch::autograd::grad({y_here.sum()}, {first_here, second_here});
    first_here.detach().sub_(0.05 * gradients[0]);
    second_here.detach().sub_(0.05 * gradients[1]);
  }
  EXPECT_TRUE(at::equal(scene().parameters[0], first_here));
  EXPECT_TRUE(at::equal(agent_->sync(next(), &values_here)[1], second_here));
  world().communicator().barrier();  // others still ask for values
}

TEST_F(AutogradTest, AddsUpSeveralBackwardPasses) {
  const Step step{.rank = next_rank(), .parameter = 2};
  AutogradContext context(*agent_);
  const at::Tensor x = at::ones({2, kWidth}, at::kDouble).set_requires_grad(true);
  const at::Tensor y = agent_->sync(next(), &visit, step, x);
  context.backward({y.sum()});
  const at::Tensor once = gradient_of(context, x);
  context.backward({y.sum()});
  EXPECT_TRUE(at::equal(gradient_of(context, x), once * 2));
}

TEST_F(AutogradTest, RunsTheHooksOfAccumulations) {
  agent_->sync(next(), &take_tenfold, 0);
  world().communicator().barrier();  // no hook comes to a graph that is in use
  const Step step{.rank = next_rank(), .parameter = 0, .next = {{.rank = next_rank(), .parameter = 1}}};
  const at::Tensor x = at::linspace(-1, 1, kWidth, at::kDouble).view({1, kWidth});
  const auto parameters = all_parameters();
  const std::vector<at::Tensor>& known = parameters[at(next_rank())];
  const auto alone = torch::autograd::grad({visit_here(step, x, parameters).sum()}, {known[0], known[1]});
  AutogradContext context(*agent_);
  const at::Tensor y = agent_->sync(next(), &visit, step, x);
  for (const int factor : {10, (10 + 1) * 10}) {
    context.backward({y.sum()});
    const auto found = agent_->sync(next(), &gradients_here, context.id());
    EXPECT_TRUE(at::allclose(found[0], alone[0] * factor)) << factor;
    EXPECT_TRUE(at::allclose(found[1], alone[1] * (factor == 10 ? 1 : 2))) << factor;
  }
  world().communicator().barrier();
  for (const at::Tensor& parameter : scene().parameters) EXPECT_FALSE(parameter.grad().defined());
}

TEST_F(AutogradTest, LetsHooksOfSeveralRanksWaitForEachOther) {
  if (world().rank() > 0) return;
  Step step{.rank = 0};
  for (int rank = 1; rank < world().size(); ++rank) {
    step.next.push_back({.rank = rank});
    agent_->sync(fmt::format("rank:{}", rank), &wait_in_hook_of, 0, world().size() - 1);
  }
  scene().hooks_begun = 0;
  AutogradContext context(*agent_);
  context.backward({visit(step, at::ones({1, kWidth}, at::kDouble)).sum()});
  EXPECT_EQ(scene().hooks_begun, world().size() - 1);
}

TEST_F(AutogradTest, LetsTensorsThatCameBeChangedInPlace) {
  const at::Tensor x = at::linspace(-2, 3, 6, at::kDouble).set_requires_grad(true);
  const at::Tensor expected = x.detach() * 2 + 1;
  AutogradContext context(*agent_);
  // Within one process the tensor itself is passed, which is a leaf here.
  at::Tensor y = agent_->sync(next(), &scale_in_place, world().size() == 1 ? x * 1 : x);
  EXPECT_TRUE(at::equal(y, expected));
  y.mul_(3);
  context.backward({y.sum()});
  EXPECT_TRUE(at::equal(gradient_of(context, x), at::full({6}, 6.0, at::kDouble)));
}

TEST_F(AutogradTest, RunsFromRootsOfOtherRanksAtOnce) {
  const Step step{.rank = next_rank(), .parameter = 0, .next = {{.rank = world().rank(), .parameter = 1}}};
  const at::Tensor x = at::ones({2, kWidth}, at::kDouble).set_requires_grad(true);
  const auto parameters = all_parameters();
  const at::Tensor alone =
      torch::autograd::grad({visit_here(step, x, parameters).sum()}, {x}, {}, false, false, false).front();
  ContextId ended;
  {
    AutogradContext context(*agent_);
    ended = context.id();
    const Ref<at::Tensor> there = agent_->remote(next(), &loss_of, step, x);
    const at::Tensor here = agent_->sync(next(), &loss_of, step, x);
    Future<void> pass = agent_->async(next(), &run_backward, ended, there);
    context.backward({here});
    pass.wait();
    EXPECT_TRUE(at::equal(gradient_of(context, x), alone + alone));
  }
  EXPECT_THAT([&] { backward(*agent_, ended, {at::ones({1}).set_requires_grad(true)}); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("has ended")));
}

TEST_F(AutogradTest, KeepsContextsOfThreadsApart) {
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([this, t] {
      for (int round = 0; round < 10; ++round) {
        AutogradContext context(*agent_);
        const at::Tensor x = at::full({1, kWidth}, 0.1 * t, at::kDouble).set_requires_grad(true);
        const Step step{.rank = next_rank(), .parameter = t % kParameters};
        context.backward({(agent_->sync(next(), &visit, step, x) * t).sum()});
        const at::Tensor known = parameters_of(next_rank())[at(t % kParameters)];
        const auto expected = torch::autograd::grad({(at::tanh(at::mm(x, known)) * t).sum()}, {known});
        const auto found = agent_->sync(next(), &gradients_here, context.id());
        EXPECT_TRUE(at::equal(found[at(t % kParameters)], expected[0]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  world().communicator().barrier();
}

TEST_F(AutogradTest, TellsErrorsOfTheWayBack) {
  if (world().size() == 1) GTEST_SKIP() << "needs several ranks";
  AutogradContext context(*agent_);
  const at::Tensor x = at::ones({3}, at::kDouble).set_requires_grad(true);
  const at::Tensor y = agent_->sync(next(), &fail_on_the_way_back, x);
  try {
    context.backward({y.sum()});
    FAIL() << "nothing was thrown";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.rank(), next_rank());
    EXPECT_THAT(error.text(), testing::HasSubstr("no way back"));
  }
  EXPECT_TRUE(context.gradients().empty());
}

TEST_F(AutogradTest, FollowsCallbacksOfFutures) {
  const Step first{.rank = next_rank(), .parameter = 0}, second{.rank = next_rank(), .parameter = 1};
  const at::Tensor x = at::linspace(-1, 1, kWidth, at::kDouble).view({1, kWidth});
  AutogradContext context(*agent_);
  const at::Tensor y =
      agent_->async(next(), &visit, first, x)
          .then([&](Future<at::Tensor> done) { return agent_->sync(next(), &visit, second, done.wait()); })
          .wait();
  context.backward({y.sum()});
  const std::vector<at::Tensor> known = parameters_of(next_rank());
  const at::Tensor y_here = at::tanh(at::mm(at::tanh(at::mm(x, known[0])), known[1]));
  const auto expected = torch::autograd::grad({y_here.sum()}, {known[0], known[1]});
  const auto found = agent_->sync(next(), &gradients_here, context.id());
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_TRUE(at::equal(found[k], expected[k])) << k;
  world().communicator().barrier();  // others still ask for gradients
}

TEST_F(AutogradTest, RefusesContextsThatThereAreNot) {
  ContextId ended;
  {
    const AutogradContext context(*agent_);
    ended = context.id();
    EXPECT_TRUE(agent_->sync(next(), &gradients_here, ended).size() == kParameters) << "without a part in it";
  }
  const ContextId never_begun{.creator = next_rank(), .number = 1U << 30U};
  const ContextId of_nobody{.creator = world().size(), .number = 1};
  const auto refused = [](const std::string& text) {
    return testing::ThrowsMessage<Error>(testing::HasSubstr(text));
  };
  const std::string own = fmt::format("of worker{} (rank {}, ", world().rank(), world().rank());
  EXPECT_THAT([&] { gradients(*agent_, ended); }, refused(own));
  EXPECT_THAT([&] { gradients(*agent_, ended); }, refused("has ended"));
  EXPECT_THAT([&] { agent_->sync(next(), &gradients_here, ended); }, refused("has ended"));
  EXPECT_THAT([&] { gradients(*agent_, never_begun); }, refused("was never begun"));
  EXPECT_THAT([&] { gradients(*agent_, of_nobody); },
              refused(fmt::format("there are {} ranks", world().size())));
  world().communicator().barrier();  // others still ask
}

TEST_F(AutogradTest, RefusesRootsThatAreNone) {
  AutogradContext context(*agent_);
  EXPECT_THROW(context.backward({}), InputError);
  EXPECT_THROW(context.backward({at::ones({2}).set_requires_grad(true)}), InputError);
  EXPECT_THROW(context.backward({at::ones({1})}), InputError);
}

TEST_F(AutogradTest, ForgetsContextsThatEnd) {
  const Step step{.rank = next_rank(), .parameter = 0};
  const at::Tensor x = at::ones({2, kWidth}, at::kDouble).set_requires_grad(true);
  for (int i = 0; i < 200; ++i) {
    AutogradContext context(*agent_);
    const at::Tensor y = agent_->sync(next(), &visit, step, x);
    if (i % 2 == 0) context.backward({y.sum()});
  }
  EXPECT_FALSE(current_context(*agent_));
  world().communicator().barrier();
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (agent_->counts().contexts > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(agent_->counts().contexts, 0U);
}

}  // namespace
}  // namespace strata::rpc
