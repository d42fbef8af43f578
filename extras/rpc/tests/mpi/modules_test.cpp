// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
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

#include <optional>
#include <thread>

#include "strata/cuda/device.hpp"
#include "strata/nn/weights.hpp"
#include "strata/rpc/optimizer.hpp"
#include "strata/rpc/pipeline.hpp"
#include "strata/rpc/remote_module.hpp"
#include "support/mpi_world.hpp"
#include "support/temporary_folder.hpp"

namespace strata::rpc {
namespace {

using test::world;

constexpr std::int64_t kWidth = 12;
constexpr int kSteps = 20, kPipelineSteps = 6;

struct LayerOptions {
  std::int64_t width = kWidth;
  double first = 0;  ///< of its weights
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(width, first);
  }
};

at::Tensor some_values(double first, at::IntArrayRef sizes) {
  return at::sin(at::linspace(first, first + 9, c10::multiply_integers(sizes), at::kFloat)).view(sizes);
}

/// tanh(x W + b), twice as much in training.
class Layer : public torch::nn::Module {
 public:
  explicit Layer(const LayerOptions& options) {
    if (options.width < 1) throw InputError("a layer without columns", "Make it wider.");
    weight_ = register_parameter("weight", some_values(options.first, {options.width, options.width}));
    bias_ = register_parameter("bias", some_values(options.first + 1, {options.width}));
    offset_ = register_buffer("offset", some_values(options.first + 2, {options.width}));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = at::tanh(at::mm(x, weight_) + bias_) + offset_;
    return is_training() ? y * 2 : y;
  }

 private:
  at::Tensor weight_, bias_, offset_;
};

/// A struct as an input and an output.
struct Rows {
  at::Tensor values;
  std::int64_t first = 0;
  Rows to(at::Device device) const { return {.values = values.to(device), .first = first}; }
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(values, first);
  }
};
class Narrow : public torch::nn::Module {
 public:
  Narrow() = default;
  explicit Narrow(int) {}
  Rows forward(const Rows& rows, std::int64_t count) const {
    return {.values = rows.values.narrow(0, rows.first, count), .first = rows.first + count};
  }
};

/// Refuses an input whose first element is 0.
class Picky : public torch::nn::Module {
 public:
  Picky() = default;
  at::Tensor forward(const at::Tensor& x) const {
    if (x.flatten()[0].item<float>() == 0) throw InputError("the row begins with 0", "Take another.");
    return x + 1;
  }
};

Registry registry() {
  Registry registry;
  register_module<Layer, LayerOptions>(registry, "Layer");
  register_module<Narrow>(registry, "Narrow");
  register_module<Picky>(registry, "Picky");
  return registry;
}

class ModulesTest : public testing::Test {
 protected:
  void SetUp() override { start({}); }
  void TearDown() override {
    agent_->shutdown();  // throws if handles are left
    agent_.reset();
  }
  /// All ranks use one GPU, if any.
  void start(Options options) {
    agent_.reset();
    for (int peer = 0; cuda::device_count() > 0 && peer < world().size(); ++peer)
      if (peer != world().rank()) options.set_device_map(fmt::format("worker{}", peer), {{0, 0}});
    agent_.emplace(world().communicator(), fmt::format("worker{}", world().rank()), registry(), options);
  }
  Agent& agent() { return *agent_; }
  /// The rank so many after this one.
  static std::string after(int count) {
    return fmt::format("worker{}", (world().rank() + count) % world().size());
  }
  /// Layer i of this rank's model, which lies on the rank i after it, from 1 on.
  static LayerOptions layer(int i) { return {.first = world().rank() + 0.3 * i}; }
  std::vector<RemoteModule<Layer>> remote_layers(int count, const std::string& device = "cpu") {
    std::vector<RemoteModule<Layer>> layers;
    for (int i = 0; i < count; ++i)
      layers.emplace_back(agent(), fmt::format("{}/{}", after(i + 1), device), layer(i));
    return layers;
  }

 private:
  std::optional<Agent> agent_;
};

/// A model in this process.
std::vector<std::shared_ptr<Layer>> layers_here(const std::vector<LayerOptions>& options,
                                                const char* device = "cpu") {
  std::vector<std::shared_ptr<Layer>> layers;
  for (const LayerOptions& each : options) {
    layers.push_back(std::make_shared<Layer>(each));
    layers.back()->to(at::Device(device));
  }
  return layers;
}
at::Tensor through(const std::vector<std::shared_ptr<Layer>>& layers, at::Tensor x) {
  for (const auto& layer : layers) x = layer->forward(x);
  return x;
}
std::vector<at::Tensor> parameters_of(const std::vector<std::shared_ptr<Layer>>& layers) {
  std::vector<at::Tensor> all;
  for (const auto& layer : layers)
    for (const at::Tensor& parameter : layer->parameters()) all.push_back(parameter);
  return all;
}
std::vector<Ref<at::Tensor>> parameters_of(const std::vector<RemoteModule<Layer>>& layers) {
  std::vector<Ref<at::Tensor>> all;
  for (const RemoteModule<Layer>& layer : layers)
    for (const Ref<at::Tensor>& parameter : layer.parameters()) all.push_back(parameter);
  return all;
}

/// One update of all parameters, in one piece as training makes it.
class OneProcess {
 public:
  OneProcess(std::vector<at::Tensor> parameters, const nn::OptimizerOptions& options)
      : parameters_(std::move(parameters)),
        values_(flat(parameters_)),
        optimizer_(nn::make_optimizer(options, values_)) {}

  void step(const at::Tensor& loss) {
    optimizer_->step(values_, flat(torch::autograd::grad({loss}, parameters_)));
    std::int64_t first = 0;
    for (const at::Tensor& parameter : parameters_) {
      parameter.detach().copy_(values_.narrow(0, first, parameter.numel()).view(parameter.sizes()));
      first += parameter.numel();
    }
  }

 private:
  static at::Tensor flat(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> pieces;
    for (const at::Tensor& tensor : tensors) pieces.push_back(tensor.detach().reshape(-1));
    return at::cat(pieces);
  }

  std::vector<at::Tensor> parameters_;
  at::Tensor values_;
  std::unique_ptr<nn::Optimizer> optimizer_;
};

at::Tensor batch(int step, std::int64_t rows = 7) { return some_values(step, {rows, kWidth}); }

void expect_equal(const std::vector<Ref<at::Tensor>>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::equal(found[i].to_here().detach(), expected[i].detach())) << "parameter " << i;
}

bool is_missing(const char* device) { return at::Device(device).is_cuda() && cuda::device_count() == 0; }

struct OptimizerCase {
  const char* name;
  nn::OptimizerOptions options;
  const char* device = "cpu";
};
class OptimizerTest : public ModulesTest, public testing::WithParamInterface<OptimizerCase> {};

TEST_P(OptimizerTest, GivesTheBitsOfOneProcess) {
  const auto& [name, options, device] = GetParam();
  if (is_missing(device)) GTEST_SKIP() << "needs a GPU";
  const auto here = layers_here({layer(0), layer(1), layer(2)}, device);
  OneProcess expected(parameters_of(here), options);
  const auto layers = remote_layers(3, device);
  const auto parameters = parameters_of(layers);
  const DistributedOptimizer optimizer(agent(), parameters, options);
  for (int step = 0; step < kSteps; ++step) {
    AutogradContext context(agent());
    at::Tensor x = batch(step).to(at::Device(device));
    for (const RemoteModule<Layer>& layer : layers) x = layer.forward(x);
    const at::Tensor loss = (x * x).mean();
    context.backward({loss});
    optimizer.step(context);
    const at::Tensor y = through(here, batch(step).to(at::Device(device)));
    const at::Tensor loss_here = (y * y).mean();
    ASSERT_TRUE(at::equal(loss, loss_here)) << "step " << step;
    expected.step(loss_here);
  }
  expect_equal(parameters, parameters_of(here));
  EXPECT_FALSE(at::allclose(parameters[0].to_here().cpu(), Layer(layer(0)).parameters()[0], 1e-3, 1e-3));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, OptimizerTest,
    testing::Values(
        OptimizerCase{"sgd", {.kind = nn::OptimizerKind::sgd, .learning_rate = 0.05, .weight_decay = 0.01}},
        OptimizerCase{"adam", {.kind = nn::OptimizerKind::adam, .learning_rate = 0.01}},
        OptimizerCase{"adam_cuda", {.kind = nn::OptimizerKind::adam, .learning_rate = 0.01}, "cuda:0"},
        OptimizerCase{
            "adamw",
            {.kind = nn::OptimizerKind::adamw,
             .learning_rate = 0.01,
             .weight_decay = 0.1,
             .schedule = {.kind = nn::ScheduleKind::cosine, .warmup_steps = 3, .total_steps = kSteps}}}),
    [](const auto& info) { return info.param.name; });

TEST_F(ModulesTest, LeavesParametersWithoutGradientsAsTheyAre) {
  const nn::OptimizerOptions options{.kind = nn::OptimizerKind::adam, .learning_rate = 0.02};
  const auto layers = remote_layers(2);
  const auto parameters = parameters_of(layers);
  const DistributedOptimizer optimizer(agent(), parameters, options);
  const auto train = [&](const RemoteModule<Layer>& layer) {
    AutogradContext context(agent());
    context.backward({layer.forward(batch(1)).sum()});
    optimizer.step(context);
  };
  for (int step = 0; step < 3; ++step) train(layers[0]);
  const auto untrained = layers_here({layer(1)});
  expect_equal(layers[1].parameters(), parameters_of(untrained));
  // Its first update is the first one of its moments, too.
  train(layers[1]);
  OneProcess fresh(parameters_of(untrained), options);
  fresh.step(through(untrained, batch(1)).sum());
  expect_equal(layers[1].parameters(), parameters_of(untrained));
}

TEST_F(ModulesTest, LoseNoUpdateOfTwoOptimizersOfOneParameter) {
  constexpr int kUpdates = 40;
  const auto parameter = std::make_shared<at::Tensor>(at::zeros({200'000}).set_requires_grad(true));
  const std::vector<Ref<at::Tensor>> parameters{agent().share(parameter)};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      const DistributedOptimizer optimizer(agent(), parameters,
                                           {.kind = nn::OptimizerKind::sgd, .learning_rate = 1});
      for (int step = 0; step < kUpdates; ++step) {
        AutogradContext context(agent());
        context.backward({parameter->sum()});
        optimizer.step(context);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(at::equal(parameter->detach(), at::full({200'000}, -2.0F * kUpdates)));
}

TEST_F(ModulesTest, RefusesWhatCannotBeUpdated) {
  const nn::OptimizerOptions sgd{.kind = nn::OptimizerKind::sgd};
  const RemoteModule<Layer> layer(agent(), after(1), LayerOptions{});
  const auto parameters = layer.parameters();
  EXPECT_THROW(DistributedOptimizer(agent(), {}, sgd), InputError);
  EXPECT_THROW(DistributedOptimizer(agent(), parameters, {.clip_norm = 1}), InputError);
  EXPECT_THROW(DistributedOptimizer(agent(), parameters, {.skip_not_finite = true}), InputError);
  const auto share = [&](const at::Tensor& tensor) {
    return agent().share(std::make_shared<at::Tensor>(tensor));
  };
  const auto refused = [&](const std::vector<Ref<at::Tensor>>& list) {
    try {
      const DistributedOptimizer optimizer(agent(), list, sgd);
    } catch (const RemoteError& error) {
      return error.text();
    }
    return std::string("nothing");
  };
  EXPECT_THAT(refused({share(at::ones({2, 3}, at::kDouble).set_requires_grad(true))}),
              testing::HasSubstr("Double [2, 3]"));
  EXPECT_THAT(refused({share(at::ones({4}))}), testing::HasSubstr("without requires_grad"));
  EXPECT_THAT(refused({share(at::ones({2, 3}).t().set_requires_grad(true))}),
              testing::HasSubstr("not contiguous"));
  EXPECT_THAT(refused({parameters[0], parameters[1], parameters[0]}), testing::HasSubstr("twice"));

  const DistributedOptimizer optimizer(agent(), parameters, sgd);
  AutogradContext context(agent());
  const at::Tensor loss = layer.forward(batch(0).set_requires_grad(true)).sum();
  EXPECT_THROW(optimizer.step(context), InputError);
  context.backward({loss});
  optimizer.step(context);
  // The gradient of x needs the weights of the forward pass.
  EXPECT_ANY_THROW(context.backward({loss}));
}

TEST_F(ModulesTest, ComputesAsTheModuleWould) {
  const RemoteModule<Layer> remote(agent(), after(1) + "/cpu", layer(0));
  const auto here = layers_here({layer(0)});
  Future<at::Tensor> later = remote.forward_async(batch(5));
  EXPECT_TRUE(at::equal(remote.forward(batch(4)), through(here, batch(4))));
  EXPECT_TRUE(at::equal(later.wait(), through(here, batch(5))));
  remote.eval();
  here[0]->eval();
  const at::Tensor evaluated = remote.forward(batch(4));
  EXPECT_TRUE(at::equal(evaluated, through(here, batch(4))));
  remote.train();
  EXPECT_FALSE(at::equal(remote.forward(batch(4)), evaluated));
  expect_equal(remote.parameters(), parameters_of(here));
  EXPECT_EQ(remote.handle().owner_name(), after(1));
}

TEST_F(ModulesTest, TakesAndReturnsStructs) {
  const RemoteModule<Narrow> narrow(agent(), after(1));
  const Rows rows = narrow.forward(Rows{.values = batch(2), .first = 2}, std::int64_t{3});
  EXPECT_EQ(rows.first, 5);
  EXPECT_TRUE(at::equal(rows.values, batch(2).narrow(0, 2, 3)));
}

TEST_F(ModulesTest, CarriesWeightsThroughFilesOfTheOwner) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "layer.safetensors").string();
  const RemoteModule<Layer> first(agent(), after(1), layer(0)), second(agent(), after(2), layer(1));
  EXPECT_FALSE(at::equal(first.forward(batch(0)), second.forward(batch(0))));
  first.save(path);
  Layer here(layer(2));
  nn::load_weights(here, nn::read_tensors(path), path);
  EXPECT_TRUE(at::equal(first.forward(batch(0)), here.forward(batch(0))));
  second.load(path);
  EXPECT_TRUE(at::equal(first.forward(batch(0)), second.forward(batch(0))));
  try {
    second.load(path + ".missing");
    FAIL() << "nothing was thrown";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.agent(), after(2));
    EXPECT_THAT(error.text(), testing::HasSubstr("layer.safetensors.missing"));
  }
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return fmt::format("{} {}", error.what(), error.remedy());
  }
  return "nothing was thrown";
}

TEST_F(ModulesTest, SaysWhatIsWrongWithPlacesAndTypes) {
  const auto make = [&](const std::string& place) {
    return refusal([&] { RemoteModule<Layer>(agent(), place, LayerOptions{}); });
  };
  EXPECT_THAT(make("worker0/gpu"), testing::HasSubstr("'gpu' in 'worker0/gpu' is no device Write worker0, "));
  EXPECT_THAT(make("worker0/cuda:"), testing::HasSubstr("is no device"));
  EXPECT_THAT(make("worker0/cuda:1x"), testing::HasSubstr("is no device"));
  EXPECT_THAT(make("worker0/cuda:4711"), testing::HasSubstr("worker0 has no cuda:4711: it sees "));
  EXPECT_THAT(make("worker00/cpu"), testing::HasSubstr("worker0"));
  EXPECT_THAT(refusal([&] { RemoteModule<Narrow>(agent(), "worker0", 7); }),
              testing::HasSubstr("int const&"));
  const RemoteModule<Layer> broken(agent(), after(1), LayerOptions{.width = 0});
  try {
    broken.forward(batch(0));
    FAIL() << "nothing was thrown";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.text(), "a layer without columns");
  }
}

/// The same micro-batches in one process.
at::Tensor pieces_through(const std::vector<std::shared_ptr<Layer>>& layers, const at::Tensor& x,
                          std::int64_t micro_batches) {
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& piece : x.tensor_split(micro_batches)) outputs.push_back(through(layers, piece));
  return at::cat(outputs);
}

std::vector<at::Tensor> gradients_of_batch(const std::vector<std::shared_ptr<Layer>>& layers,
                                           const at::Tensor& x) {
  return torch::autograd::grad({through(layers, x).square().sum()}, parameters_of(layers));
}

struct PipelineCase {
  const char* name;
  int threads;
  const char* device;
};
class PipelineTest : public ModulesTest, public testing::WithParamInterface<PipelineCase> {};

TEST_P(PipelineTest, TrainsToTheBitsOfOneProcess) {
  const auto& [name, threads, device] = GetParam();
  if (is_missing(device)) GTEST_SKIP() << "needs a GPU";
  TearDown();
  start({.threads = threads});
  constexpr std::int64_t kMicroBatches = 5;
  const nn::OptimizerOptions options{.kind = nn::OptimizerKind::adam, .learning_rate = 0.01};
  const auto here = layers_here({layer(0), layer(1), layer(2)}, device);
  OneProcess expected(parameters_of(here), options);
  const auto layers = remote_layers(3, device);
  const auto parameters = parameters_of(layers);
  const DistributedOptimizer optimizer(agent(), parameters, options);
  std::vector<Stage> stages;
  for (const RemoteModule<Layer>& layer : layers) stages.push_back(layer.stage());
  for (int step = 0; step < kPipelineSteps; ++step) {
    const at::Tensor x = batch(step, 13).to(at::Device(device));
    AutogradContext context(agent());
    const at::Tensor y = pipeline(stages, x, {.micro_batches = kMicroBatches});
    const at::Tensor y_here = pieces_through(here, x, kMicroBatches);
    ASSERT_TRUE(at::equal(y, y_here)) << "step " << step;
    context.backward({y.square().sum()});
    optimizer.step(context);
    expected.step(y_here.square().sum());
  }
  expect_equal(parameters, parameters_of(here));
}

INSTANTIATE_TEST_SUITE_P(Threads, PipelineTest,
                         testing::Values(PipelineCase{"one", 1, "cpu"}, PipelineCase{"many", 16, "cpu"},
                                         PipelineCase{"many_cuda", 16, "cuda:0"}),
                         [](const auto& info) { return info.param.name; });

TEST_F(ModulesTest, PipelinesHaveTheGradientsOfTheWholeBatch) {
  // Updates have a rate of 1 and no moments.
  const nn::OptimizerOptions options{.kind = nn::OptimizerKind::sgd, .learning_rate = 1};
  for (const std::int64_t micro_batches : {1, 2, 7}) {
    const auto here = layers_here({layer(0), layer(1)});
    const auto layers = remote_layers(2);
    const auto parameters = parameters_of(layers);
    const DistributedOptimizer optimizer(agent(), parameters, options);
    const at::Tensor x = batch(3);
    AutogradContext context(agent());
    const at::Tensor y =
        pipeline({layers[0].stage(), layers[1].stage()}, x, {.micro_batches = micro_batches});
    context.backward({y.square().sum()});
    optimizer.step(context);
    const auto gradients = gradients_of_batch(here, x);
    const auto before = parameters_of(here);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(at::allclose(parameters[i].to_here(), before[i] - gradients[i], 1e-4, 1e-4))
          << micro_batches << " micro-batches, parameter " << i;
  }
}

TEST_F(ModulesTest, PipelinesFailWithTheErrorOfAStage) {
  const RemoteModule<Picky> first(agent(), after(1)), second(agent(), after(2));
  at::Tensor x = at::ones({6, 2});
  x.select(0, 3).select(0, 0).fill_(0);
  for (const at::Tensor& broken : {x, x * 2 - 1}) {  // for the first stage and for the second
    try {
      pipeline({first.stage(), second.stage()}, broken, {.micro_batches = 6});
      FAIL() << "nothing was thrown";
    } catch (const RemoteError& error) {
      EXPECT_THAT(error.text(), testing::HasSubstr("the row begins with 0"));
    }
  }
  EXPECT_TRUE(at::equal(pipeline({first.stage(), second.stage()}, at::ones({6, 2}), {.micro_batches = 3}),
                        at::ones({6, 2}) * 3));
  EXPECT_THROW(pipeline({}, x, {}), InputError);
  EXPECT_THROW(pipeline({first.stage()}, x, {.micro_batches = 7}), InputError);
  EXPECT_THROW(pipeline({first.stage()}, x, {.micro_batches = 0}), InputError);
}

}  // namespace
}  // namespace strata::rpc
