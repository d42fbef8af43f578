// SPDX-License-Identifier: Apache-2.0
// A rank that is killed while tensors are made, or while they are read. See killed_rank.sh.
#include <numeric>
#include <string>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "support/last_rank.hpp"
#include "support/start_ranks.hpp"

namespace {

using strata::tensor::Stratum;

using strata::Count;
using strata::NodeId;
using strata::comm::Machine;
using strata::tensor::ChunkTensor;

ChunkTensor create(const Machine& machine) {
  constexpr Count kRows = 200'000;
  return ChunkTensor::create(
      machine, {.name = "features", .rows = kRows, .cols = 16},
      {.segments = {
           {{Stratum::replicated, kRows / 4}, {Stratum::striped, kRows / 4}, {Stratum::host, kRows / 2}}}});
}

[[noreturn]] void create_for_ever(const Machine& machine) {
  for (;;) create(machine).close(machine);
}

[[noreturn]] void gather_for_ever(const Machine& machine) {
  const ChunkTensor tensor = create(machine);
  const strata::Device device = machine.device();
  const strata::cuda::DeviceGuard guard(device);
  const strata::cuda::Stream stream =
      device.is_cuda() ? strata::cuda::Stream(device) : strata::cuda::Stream();
  std::vector<NodeId> ids(static_cast<std::size_t>(tensor.spec().rows));
  std::iota(ids.begin(), ids.end(), 0);
  const strata::cuda::Array<NodeId> on_device(strata::cuda::memory_on(device), std::ssize(ids), "ids",
                                              device);
  strata::cuda::copy_async(on_device.data(), ids.data(), ids.size() * sizeof(NodeId), stream);
  const strata::cuda::Array<float> out(strata::cuda::memory_on(device), std::ssize(ids) * tensor.spec().cols,
                                       "out", device);
  strata::ThreadPool pool(2);
  for (;;) {
    tensor.gather({.data = on_device.data(), .size = std::ssize(ids)}, out.data(), stream, pool);
    tensor.fence(machine, stream);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const strata::comm::World world(strata::test::start_ranks(&argc, &argv));
  const strata::comm::Topology topology = strata::comm::discover(world.communicator(), {});
  const Machine machine(world.communicator(), topology);
  const std::jthread killer = strata::test::kill_last_rank(world);
  std::string(argc > 1 ? argv[1] : "create") == "gather" ? gather_for_ever(machine)
                                                         : create_for_ever(machine);
}
