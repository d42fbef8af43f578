// SPDX-License-Identifier: Apache-2.0
// PyTorch's recipe "Direct Device-to-Device Communication with TensorPipe CUDA RPC": two Linear layers on two
// ranks, and how long ten steps forward and backward through both take.
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "strata/cuda/device.hpp"
#include "strata/rpc/autograd.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"
#include "strata/util/error.hpp"

namespace {

using namespace strata;

constexpr std::int64_t kWidth = 1000;
constexpr int kSteps = 10, kMeasurements = 10;

at::Device torch_device(Device device) {
  return device.is_cuda() ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device.index))
                          : at::Device(at::kCPU);
}

/// One Linear layer, initialised as torch.nn.Linear is.
class Shard {
 public:
  explicit Shard(Device device) : device_(torch_device(device)) {
    const double bound = 1 / std::sqrt(static_cast<double>(kWidth));
    const auto uniform = [&](at::IntArrayRef sizes) {
      return at::rand(sizes, at::TensorOptions(at::kFloat).device(device_))
          .mul_(2 * bound)
          .sub_(bound)
          .set_requires_grad(true);
    };
    weight_ = uniform({kWidth, kWidth});
    bias_ = uniform({kWidth});
  }
  at::Tensor forward(const at::Tensor& x) const { return at::linear(x, weight_, bias_); }
  at::Tensor forward_on_cpu(const at::Tensor& x) const { return forward(x.to(device_)).cpu(); }

 private:
  at::Device device_;
  at::Tensor weight_, bias_;
};

/// The devices of the two shards. On a machine with one GPU they share it.
struct Places {
  Device mine, its;
};

Places places() {
  const int gpus = cuda::device_count();
  const auto gpu = [&](int index) {
    return gpus > 0 ? Device{.kind = Device::Kind::cuda, .index = std::min(index, gpus - 1)} : Device{};
  };
  return {.mine = gpu(0), .its = gpu(1)};
}

void wait_for(Device device) {
  if (device.is_cuda())
    c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(static_cast<c10::DeviceIndex>(device.index));
}

/// Seconds of ten steps.
double measure(const rpc::Agent& agent, const Shard& mine, const rpc::Ref<Shard>& other, const at::Tensor& x,
               bool by_cpu) {
  wait_for(places().mine);
  const auto begin = std::chrono::steady_clock::now();
  for (int step = 0; step < kSteps; ++step) {
    rpc::AutogradContext context(agent);
    const at::Tensor h = mine.forward(x);
    const at::Tensor y =
        by_cpu ? other.sync(&Shard::forward_on_cpu, h.cpu()).to(x.device()) : other.sync(&Shard::forward, h);
    context.backward({y.sum()});
  }
  wait_for(places().mine);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Prints both times of a mode, and returns the second.
double run(rpc::Agent& agent, const std::string& mode) {
  const Shard mine(places().mine);
  const rpc::Ref<Shard> other = agent.remote<Shard>("worker1", places().its);
  const at::Tensor x =
      at::randn({kWidth, kWidth}, at::TensorOptions(at::kFloat).device(torch_device(places().mine)));
  const auto once = [&] { return measure(agent, mine, other, x, mode == "cpu"); };
  fmt::print("{} RPC total execution time: {} Seconds\n", mode, once());
  std::vector<double> warm;
  for (int i = 0; i < kMeasurements; ++i) warm.push_back(once());
  std::ranges::nth_element(warm, warm.begin() + kMeasurements / 2);
  const double median = warm[kMeasurements / 2];
  fmt::print("{} RPC, median of {} more: {} Seconds\n", mode, kMeasurements, median);
  std::fflush(stdout);
  return median;
}

void run_all(rpc::Agent& agent, const std::vector<std::string>& modes) {
  std::map<std::string, double> seconds;
  for (const std::string& mode : modes) seconds[mode] = run(agent, mode);
  if (seconds.size() == 2)
    fmt::print("cuda takes {:.3f} of the time of cpu\n", seconds.at("cuda") / seconds.at("cpu"));
}

/// In the order in which they are given; by default what this machine can do.
std::vector<std::string> modes_of(int argc, char** argv) {
  std::vector<std::string> modes(argv + 1, argv + argc);
  const bool has_gpu = places().mine.is_cuda();
  for (const std::string& mode : modes) {
    if (mode != "cpu" && mode != "cuda")
      throw InputError(fmt::format("'{}' is neither cpu nor cuda", mode), "two_shards [cpu] [cuda]");
    if (mode == "cuda" && !has_gpu)
      throw InputError("there is no GPU here for the mode cuda", "Leave the modes out, or give cpu.");
  }
  if (!modes.empty()) return modes;
  return has_gpu ? std::vector<std::string>{"cpu", "cuda"} : std::vector<std::string>{"cpu"};
}

void run_rank(const comm::Communicator& ranks, const std::vector<std::string>& modes) {
  if (ranks.size() != 2)
    throw InputError(fmt::format("two_shards runs on two ranks, not on {}", ranks.size()),
                     "mpirun -n 2 two_shards");
  rpc::Registry registry;
  registry.constructor<Shard, Device>("Shard");
  registry.method("Shard::forward", &Shard::forward).method("Shard::forward_on_cpu", &Shard::forward_on_cpu);
  rpc::Options options;
  if (ranks.rank() == 0 && places().mine.is_cuda())
    options.set_device_map("worker1", {{places().mine.index, places().its.index}});
  rpc::Agent agent(ranks, fmt::format("worker{}", ranks.rank()), registry, options);
  if (ranks.rank() == 0) run_all(agent, modes);
  agent.shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const comm::World world(torch_ranks::backend_of_launcher(&argc, &argv));
    run_rank(world.communicator(), modes_of(argc, argv));
    return 0;
  } catch (const InputError& error) {
    fmt::print(stderr, "two_shards: {}\n  {}\n", error.what(), error.remedy());
    return static_cast<int>(ExitCode::bad_input);
  } catch (const std::exception& error) {
    fmt::print(stderr, "two_shards: {}\n", error.what());
    return 1;
  }
}
