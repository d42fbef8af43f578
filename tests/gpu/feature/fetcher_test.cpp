#include "strata/feature/fetcher.hpp"

#include <gtest/gtest.h>

#include "support/distributed_table.hpp"

namespace strata::feature {
namespace {

using test::DistributedTable;
using test::RunSetup;
using Compute = comm::TopologyOptions::Compute;

class RowFetcherOnGpu : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_P(RowFetcherOnGpu, ReadsRowsOfAllMachines) {
  const int ranks_per_machine = GetParam();
  std::uint64_t seed = 1;
  for (const double on_gpu : {0.0, 0.4, 1.0}) {
    for (const Count cols : {1, 6, 32}) {
      const RunSetup run(ranks_per_machine, Compute::cuda);
      const Count kept = cols == 6 ? 3 : 0;  // with a halo cache and without
      DistributedTable table(
          run, {.cols = cols, .dtype = DType::f16, .seed = ++seed, .on_gpu = on_gpu, .kept = kept});
      comm::Communicator communicator = test::world().communicator().duplicate();
      ThreadPool pool(1);
      {
        RowFetcher fetcher(table.tensor, run.machine.device(),
                           {.communicator = &communicator,
                            .topology = &run.topology,
                            .machine_offsets = table.offsets,
                            .machine = run.machine.index(),
                            .halo = &table.halo},
                           pool);
        for (std::uint64_t batch = 0; batch < 3; ++batch) {
          const auto rank = static_cast<std::uint64_t>(test::world().rank());
          const Count count = rank == batch ? 0 : 400 + static_cast<Count>(batch) * 100;
          const auto ids = test::distinct_ids(count, 1000, seed + 100 * batch + rank);
          EXPECT_EQ(test::fetched(fetcher, run.machine.device(), ids, cols), table.expected(ids))
              << "on GPU " << on_gpu << ", columns " << cols << ", batch " << batch;
        }
      }
      table.tensor.close(run.machine);
      communicator.close();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(RanksPerMachine, RowFetcherOnGpu, testing::Values(0, 1));

}  // namespace
}  // namespace strata::feature
