// SPDX-License-Identifier: Apache-2.0
// Measures tensors between the GPUs of two ranks of a machine, from C++: calls where the GPUs reach each
// other, and where they do not, beside copies of the same bytes; and a pipeline of two modules.
//
// usage: two ranks as mpirun, srun or torchrun start them, with one GPU each or one for both
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "measuring.hpp"
#include "measuring_gpus.hpp"
#include "products.hpp"
#include "strata/rpc/agent.hpp"
#include "strata/rpc/remote_module.hpp"
#include "strata/util/error.hpp"

namespace {

using namespace strata;
using benchmarks::bytes_on, benchmarks::device_of, benchmarks::receive_on_gpu, benchmarks::synchronize,
    benchmarks::Times;

constexpr std::int64_t kLittle = 4, kSome = 4'000'000, kMuch = std::int64_t{64} << 20;

int nothing() { return 0; }
at::Tensor echo(const at::Tensor& tensor) { return tensor; }

Times measure(const std::function<void()>& run) { return benchmarks::measure(200, 20, run); }

void print(const std::string& what, const Times& times, double limit_us = 0) {
  fmt::print("{:<52} {:>10.1f} {:>10.1f}", what, times.median_us, times.p99_us);
  if (limit_us > 0) fmt::print(" {:>10.1f} {:>8.2f}", limit_us, limit_us / times.median_us);
  fmt::print("\n");
}

/// Microseconds that only the copies take.
struct Limits {
  double some_us = 0, much_us = 0, from_host_us = 0;
  double both_us = 0;  ///< to the host from one GPU, and from the host to the other one, at once
};

double copy_us(const at::Tensor& from, at::Tensor to) {
  synchronize(to);
  return measure([&] {
           to.copy_(from, true);
           synchronize(to);
         })
      .median_us;
}

Limits measure_copies() {
  const auto between_gpus = [](std::int64_t bytes) {
    return copy_us(at::full({bytes}, 1, bytes_on(device_of(0))), at::empty({bytes}, bytes_on(device_of(1))));
  };
  const auto on_host = [] { return at::full({kMuch}, 1, at::TensorOptions(at::kByte).pinned_memory(true)); };
  const at::Tensor from = at::full({kMuch}, 1, bytes_on(device_of(0))), between = on_host(),
                   other = on_host();
  const at::Tensor to = at::empty({kMuch}, bytes_on(device_of(1)));
  const auto both = [&] {
    between.copy_(from, true);
    to.copy_(other, true);
    synchronize(from);
    synchronize(to);
  };
  return {.some_us = between_gpus(kSome),
          .much_us = between_gpus(kMuch),
          .from_host_us = copy_us(other, to),
          .both_us = measure(both).median_us};
}

rpc::Options options_of(const comm::Communicator& ranks, const std::vector<rpc::Channel>& channels) {
  rpc::Options options{.channels = channels};
  options.set_device_map(fmt::format("rank:{}", 1 - ranks.rank()),
                         {{device_of(ranks.rank()).index, device_of(1 - ranks.rank()).index}});
  return options;
}

void measure_calls(const comm::Communicator& ranks, const std::string& way,
                   const std::vector<rpc::Channel>& channels,
                   const std::function<double(std::int64_t bytes)>& limit_us) {
  rpc::Registry registry;
  registry.function("nothing", &nothing);
  registry.function("echo", &echo);
  registry.function("receive", &receive_on_gpu);
  rpc::Agent agent(ranks, fmt::format("worker{}", ranks.rank()), registry, options_of(ranks, channels));
  if (ranks.rank() == 0) {
    print(way + "empty call", measure([&] { agent.sync("worker1", &nothing); }));
    const at::Tensor little = at::full({kLittle}, 1, bytes_on(device_of(0)));
    print(way + "4 B there and back", measure([&] { synchronize(agent.sync("worker1", &echo, little)); }));
    for (const std::int64_t bytes : {kSome, kMuch}) {
      const at::Tensor tensor = at::full({bytes}, 1, bytes_on(device_of(0)));
      const Times times = measure([&] { agent.sync("worker1", &receive_on_gpu, tensor); });
      print(fmt::format("{}{:.0f} MB one way", way, static_cast<double>(bytes) / 1e6), times,
            limit_us(bytes));
    }
  }
  agent.shutdown();
}

void measure_pipeline(const comm::Communicator& ranks) {
  constexpr std::int64_t kRows = 32768, kWidth = 4096;
  rpc::Registry registry;
  rpc::register_module<benchmarks::Products, std::int64_t>(registry, "Products");
  rpc::Agent agent(ranks, fmt::format("worker{}", ranks.rank()), registry, options_of(ranks, {}));
  if (ranks.rank() == 0) {
    const auto module_on = [&](int rank) {
      return rpc::RemoteModule<benchmarks::Products>(
          agent, fmt::format("worker{}/cuda:{}", rank, device_of(rank).index), kWidth);
    };
    const rpc::RemoteModule<benchmarks::Products> first = module_on(0), last = module_on(1);
    const at::Tensor x = at::full({kRows, kWidth}, 1, bytes_on(device_of(0)).dtype(at::kFloat));
    const Times stage = benchmarks::measure(10, 3, [&] { synchronize(first.forward(x)); });
    const Times both = benchmarks::measure(10, 3, [&] {
      synchronize(
          rpc::pipeline({first.stage(), last.stage()}, x, {.micro_batches = benchmarks::kMicroBatches}));
    });
    print("one stage, the whole batch", stage);
    print("a pipeline of two, 8 micro-batches; beside its ideal", both,
          benchmarks::of_ideal(stage, both) * both.median_us);
  }
  agent.shutdown();
}

void run(const comm::Communicator& ranks) {
  if (ranks.size() != 2) throw InputError("this benchmark takes two ranks");
  if (cuda::device_count() == 0) throw InputError("this benchmark needs a GPU");
  const Limits limits = ranks.rank() == 0 ? measure_copies() : Limits{};
  if (ranks.rank() == 0)
    fmt::print("{:<52} {:>10} {:>10} {:>10} {:>8}\n", "", "median us", "p99 us", "copy us", "ratio");
  measure_calls(ranks, "", {},
                [&](std::int64_t bytes) { return bytes == kMuch ? limits.much_us : limits.some_us; });
  measure_calls(ranks, "no peer access: ", {rpc::Channel::shared_memory},
                [&](std::int64_t bytes) { return bytes == kMuch ? limits.from_host_us : 0; });
  if (ranks.rank() == 0)
    fmt::print("to the host and from it, 67 MB each, both at once {:>13.1f}\n", limits.both_us);
  measure_pipeline(ranks);
}

}  // namespace

int main(int argc, char** argv) { return benchmarks::run_on_ranks(argc, argv, &run); }
