// SPDX-License-Identifier: Apache-2.0
// Training, whose collectives all ranks enter together, while the same ranks call each other when they like.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "strata/cuda/device.hpp"
#include "strata/rpc/agent.hpp"
#include "strata/train/trainer.hpp"
#include "support/mpi_world.hpp"

namespace strata {
namespace {

using comm::TopologyOptions;
using test::world;

at::Tensor twice(const at::Tensor& x) { return x + x; }

/// Rank 0's folder, which all ranks know.
class SharedFolder {
 public:
  SharedFolder() {
    std::string name;
    if (world().rank() == 0) {
      name =
          (std::filesystem::temp_directory_path() / fmt::format("strata-beside-{}", std::random_device{}()))
              .string();
      std::filesystem::create_directory(name);
    }
    path_ = world().communicator().all_gather(name).front();
  }
  ~SharedFolder() {
    world().communicator().barrier();
    if (world().rank() == 0) std::filesystem::remove_all(path_);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// What a run came to, to the bit.
struct Outcome {
  std::vector<double> losses;  // by step
  std::string weights;         // the file
};

Outcome train(const std::filesystem::path& folder, TopologyOptions::Compute compute) {
  train::TrainConfig config;
  config.graph =
      "synthetic:kind=sbm,nodes=3000,degree=12,features=16,classes=4,train=1500,valid=100,test=100,seed=3";
  config.output = folder.string();
  config.fanouts = {5, 4};
  config.hidden = 32;
  config.global_batch_size = 60;
  config.epochs = 2;
  config.seed = 11;
  config.log_every = 1;
  config.log_level = LogLevel::warn;
  config.progress = ProgressStyle::off;
  config.topology.compute = compute;
  train::StopListener stop(train::StopListener::ByHand{});
  train::train(config, world(), stop);
  Outcome outcome{.losses = {}, .weights = contents(folder / "model.safetensors")};
  std::ifstream metrics(folder / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("type") == "step") outcome.losses.push_back(record.at("loss"));
  }
  return outcome;
}

/// Threads of this rank that call all ranks until they are told to stop.
class Callers {
 public:
  Callers(rpc::Agent& agent, at::Device device) {
    for (unsigned t = 0; t < 2; ++t)
      threads_.emplace_back([this, &agent, device, t](const std::stop_token& stop) {
        std::mt19937 random(static_cast<unsigned>(agent.rank()) * 10 + t);
        while (!stop.stop_requested()) call(agent, device, random);
      });
  }
  /// How many calls there were.
  int stop() {
    threads_.clear();
    return calls_;
  }
  int wrong_results() const { return wrong_; }

 private:
  void call(rpc::Agent& agent, at::Device device, std::mt19937& random) {
    const std::string peer = fmt::format("rank:{}", random() % static_cast<unsigned>(agent.size()));
    const at::Device where = random() % 2 == 0 ? device : at::Device(at::kCPU);
    const at::Tensor x =
        at::arange(static_cast<std::int64_t>(random() % 30'000), at::TensorOptions(at::kFloat).device(where));
    if (!at::equal(agent.sync(peer, &twice, x), x * 2)) ++wrong_;
    ++calls_;
    std::this_thread::sleep_for(std::chrono::microseconds(500));  // and leave training a core
  }

  std::atomic<int> calls_{0}, wrong_{0};
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

void expect_the_same_run(TopologyOptions::Compute compute, int num_gpus) {
  const SharedFolder folder;
  const Outcome alone = train(folder.path() / "alone", compute);
  rpc::Registry registry;
  registry.function("twice", &twice);
  rpc::Options options{.threads = 2};
  for (int peer = 0; num_gpus > 0 && peer < world().size(); ++peer)
    options.set_device_map(fmt::format("rank:{}", peer), {{world().rank() % num_gpus, peer % num_gpus}});
  rpc::Agent agent(world().communicator(), fmt::format("worker{}", world().rank()), registry, options);
  world().communicator().barrier();
  const auto device = num_gpus > 0
                          ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(world().rank() % num_gpus))
                          : at::Device(at::kCPU);
  Callers callers(agent, device);
  const Outcome beside = train(folder.path() / "beside", compute);
  EXPECT_GT(callers.stop(), 20);
  EXPECT_EQ(callers.wrong_results(), 0);
  world().communicator().barrier();
  agent.shutdown();
  ASSERT_EQ(alone.losses.size(), 50U);
  EXPECT_EQ(beside.losses, alone.losses);
  EXPECT_EQ(beside.weights, alone.weights) << "the files of weights differ";
}

TEST(Training, HasTheSameBitsBesideCalls) { expect_the_same_run(TopologyOptions::Compute::cpu, 0); }

TEST(Training, HasTheSameBitsBesideCallsOnGpus) {
  const int gpus = cuda::device_count();
  if (gpus == 0) GTEST_SKIP() << "needs a GPU";
  expect_the_same_run(TopologyOptions::Compute::cuda, gpus);
}

}  // namespace
}  // namespace strata
