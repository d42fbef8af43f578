// SPDX-License-Identifier: Apache-2.0
// Measures calls between two ranks from C++: empty ones, and ones with a CPU tensor, beside copies of the
// same bytes within memory; and a pipeline of two modules beside the best possible time of its work.
//
// usage: two ranks as mpirun, srun or torchrun start them
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <functional>

#include "measuring.hpp"
#include "products.hpp"
#include "strata/rpc/agent.hpp"
#include "strata/rpc/remote_module.hpp"
#include "strata/util/error.hpp"

namespace {

using namespace strata;

constexpr std::int64_t kMany = std::int64_t{64} << 20;

int nothing() { return 0; }
at::Tensor echo(const at::Tensor& tensor) { return tensor; }
int receive(const at::Tensor& tensor) { return static_cast<int>(tensor.dim()); }

/// Measures with a warm-up of a tenth of the calls.
benchmarks::Times measure(int count, const std::function<void()>& run) {
  return benchmarks::measure(count, count / 10 + 3, run);
}

void print(const char* what, const benchmarks::Times& times, std::int64_t bytes) {
  fmt::print("{:<44} {:>10.1f} {:>10.1f}", what, times.median_us, times.p99_us);
  if (bytes > 0) fmt::print(" {:>10.2f}", static_cast<double>(bytes) / times.median_us / 1e3);
  fmt::print("\n");
}

/// Measures calls of rank 0, with the ranks on one machine or on one each.
void measure_calls(const comm::Communicator& ranks, bool one_machine) {
  rpc::Registry registry;
  registry.function("nothing", &nothing);
  registry.function("echo", &echo);
  registry.function("receive", &receive);
  rpc::Options options;
  if (!one_machine) options.ranks_per_machine = 1;
  rpc::Agent agent(ranks, fmt::format("worker{}", ranks.rank()), registry, options);
  if (ranks.rank() == 0) {
    const at::Tensor little = at::full({1}, 1, at::kFloat), much = at::full({kMany}, 1, at::kByte);
    print(one_machine ? "empty call" : "empty call, two machines",
          measure(5000, [&] { agent.sync("worker1", &nothing); }), 0);
    print("a tensor of 4 B there and back", measure(2000, [&] { agent.sync("worker1", &echo, little); }), 0);
    print("a tensor of 64 MiB one way", measure(30, [&] { agent.sync("worker1", &receive, much); }), kMany);
  }
  agent.shutdown();
}

void measure_copy() {
  const at::Tensor from = at::full({kMany}, 1, at::kByte);
  at::Tensor to = at::full({kMany}, 2, at::kByte);
  print("64 MiB within memory", measure(30, [&] { to.copy_(from); }), kMany);
}

/// Measures two stages, one per rank, of one thread each.
void measure_pipeline(const comm::Communicator& ranks) {
  constexpr std::int64_t kRows = 800, kWidth = 512;
  rpc::Registry registry;
  rpc::register_module<benchmarks::Products, std::int64_t>(registry, "Products");
  rpc::Agent agent(ranks, fmt::format("worker{}", ranks.rank()), registry);
  if (ranks.rank() == 0) {
    const rpc::RemoteModule<benchmarks::Products> first(agent, "worker0", kWidth),
        last(agent, "worker1", kWidth);
    const at::Tensor x = at::full({kRows, kWidth}, 1, at::kFloat);
    const benchmarks::Times stage = measure(20, [&] { first.forward(x); });
    const benchmarks::Times both = measure(20, [&] {
      rpc::pipeline({first.stage(), last.stage()}, x, {.micro_batches = benchmarks::kMicroBatches});
    });
    print("one stage, the whole batch", stage, 0);
    print("a pipeline of two, 8 micro-batches", both, 0);
    fmt::print("  of the ideal, 9/8 of one stage: {:.2f}\n", benchmarks::of_ideal(stage, both));
  }
  agent.shutdown();
}

void run(const comm::Communicator& ranks) {
  if (ranks.size() != 2) throw InputError("this benchmark takes two ranks");
  if (ranks.rank() == 0) fmt::print("{:<44} {:>10} {:>10} {:>10}\n", "", "median us", "p99 us", "GB/s");
  measure_calls(ranks, true);
  measure_calls(ranks, false);
  if (ranks.rank() == 0) measure_copy();
  measure_pipeline(ranks);
}

}  // namespace

int main(int argc, char** argv) { return benchmarks::run_on_ranks(argc, argv, &run); }
