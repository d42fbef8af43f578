// SPDX-License-Identifier: Apache-2.0
// Measures tensors between GPUs of two machines, or of two ranks that count as such: calls with one tensor by
// each channel, beside only NCCL's send and receive.
//
// usage: two ranks as mpirun, srun or torchrun start them. If they share a GPU, NCCL_HOSTID must differ
// between them.
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <array>
#include <functional>
#include <vector>

#include "measuring.hpp"
#include "measuring_gpus.hpp"
#include "strata/comm/device_exchange.hpp"
#include "strata/rpc/agent.hpp"
#include "strata/util/error.hpp"

namespace {

using namespace strata;
using benchmarks::bytes_on, benchmarks::device_of, benchmarks::receive_on_gpu, benchmarks::synchronize;

constexpr int kWarmUp = 5, kCount = 40;
constexpr std::array<std::int64_t, 3> kSizes{std::int64_t{1} << 20, std::int64_t{8} << 20,
                                             std::int64_t{64} << 20};

double median_us(const std::function<void()>& run) {
  return benchmarks::measure(kCount, kWarmUp, run).median_us;
}

/// Measures calls, by size; on rank 0.
std::vector<double> measure_calls(const comm::Communicator& ranks,
                                  const std::vector<rpc::Channel>& channels) {
  rpc::Registry registry;
  registry.function("receive", &receive_on_gpu);
  rpc::Options options{.channels = channels, .ranks_per_machine = 1};
  if (ranks.rank() == 0) options.set_device_map("rank:1", {{device_of(0).index, device_of(1).index}});
  rpc::Agent agent(ranks, fmt::format("worker{}", ranks.rank()), registry, options);
  std::vector<double> times;
  if (ranks.rank() == 0) {
    for (const std::int64_t size : kSizes) {
      const at::Tensor tensor = at::full({size}, 1, bytes_on(device_of(0)));
      times.push_back(median_us([&] { agent.sync("worker1", &receive_on_gpu, tensor); }));
    }
  }
  agent.shutdown();
  return times;
}

/// Measures one way, and one byte back as the confirmation.
std::vector<double> measure_nccl(const comm::Communicator& ranks) {
  const Device device = device_of(ranks.rank());
  const auto exchange = comm::make_device_exchange(ranks, device);
  const cuda::Stream stream(device);
  std::vector<double> times;
  for (const std::int64_t size : kSizes) {
    const at::Tensor tensor = at::full({size}, 1, bytes_on(device));
    synchronize(tensor);
    times.push_back(median_us([&] {
      const comm::DeviceExchange::Outgoing out{1 - ranks.rank(), tensor.const_data_ptr(),
                                               ranks.rank() == 0 ? size : 0};
      const comm::DeviceExchange::Incoming in{1 - ranks.rank(), tensor.mutable_data_ptr(),
                                              ranks.rank() == 0 ? 0 : size};
      exchange->exchange({&out, 1}, {&in, 1}, stream);
      stream.synchronize();
      ranks.barrier();
    }));
  }
  exchange->close();
  return times;
}

void run(const comm::Communicator& ranks) {
  if (ranks.size() != 2) throw InputError("this benchmark takes two ranks");
  if (cuda::device_count() == 0) throw InputError("this benchmark needs a GPU");
  struct Column {
    const char* name;
    std::vector<double> times;
  };
  const std::vector<Column> columns{
      {"NCCL alone", measure_nccl(ranks)},
      {"call, nccl", measure_calls(ranks, {rpc::Channel::nccl, rpc::Channel::tcp})},
      {"call, tcp", measure_calls(ranks, {rpc::Channel::tcp})}};
  if (ranks.rank() > 0) return;
  fmt::print("{:>10}", "bytes");
  for (const Column& column : columns) fmt::print(" {:>14}", column.name);
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    fmt::print("\n{:>10}", kSizes[i]);
    for (const Column& column : columns) fmt::print(" {:>11.0f} us", column.times[i]);
  }
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) { return benchmarks::run_on_ranks(argc, argv, &run); }
