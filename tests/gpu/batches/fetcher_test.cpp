// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/fetcher.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "strata/comm/reducer.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "support/distributed_table.hpp"

namespace strata::batches {
namespace {

using test::DistributedTable;
using test::RunSetup;
using Compute = comm::TopologyOptions::Compute;

/// A fetcher with all that it refers to.
struct Stage {
  struct Options {
    int ranks_per_machine = 0;
    bool on_devices = false;
    Count cap = -1;  ///< of RowFetcher::bound_requests(); -1: not called
    Count round_bytes = Count{64} << 20;
    bool ordered = false;
    bool in_bf16 = false;
  };

  Stage(const Options& options, const DistributedTable::Options& table_options)
      : run(options.ranks_per_machine, Compute::cuda),
        table(run, table_options),
        communicator(test::world().communicator().duplicate()),
        order(run.machine.device()) {
    const comm::Communicator& world = test::world().communicator();
    const Device device = run.machine.device();
    if (options.on_devices)
      exchange = comm::can_exchange_on_devices(run.topology, device)
                     ? comm::make_device_exchange(world, device)
                     : comm::make_mpi_exchange(world, device);
    fetcher.emplace(table.tensor, run.machine.device(),
                    RowExchangeContext{.communicator = &communicator,
                                       .topology = &run.topology,
                                       .machine_offsets = table.offsets,
                                       .machine = run.machine.index(),
                                       .round_bytes = options.round_bytes,
                                       .halo = &table.halo,
                                       .on_devices = exchange.get(),
                                       .in_bf16 = options.in_bf16,
                                       .order = options.ordered ? &order : nullptr},
                    pool);
    if (options.cap >= 0) fetcher->bound_requests(options.cap);
  }
  void close() {
    fetcher.reset();
    table.tensor.close(run.machine);
    if (exchange) exchange->close();
    communicator.close();
  }

  const RunSetup run;
  DistributedTable table;
  comm::Communicator communicator;
  comm::LaunchOrder order;
  ThreadPool pool{1};
  std::unique_ptr<comm::DeviceExchange> exchange;
  std::optional<RowFetcher> fetcher;
};

struct Case {
  const char* name;
  int ranks_per_machine;
  bool on_devices;
  Count cap = -1;
  bool in_bf16 = false;
};

class RowFetcherOnGpu : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    if (GetParam().on_devices && (GetParam().cap < 0 || needs_nccl())) need_gpu_per_rank();
  }
  virtual bool needs_nccl() const { return false; }
  static void need_gpu_per_rank() {
    const RunSetup run(0, Compute::cuda);
    if (!comm::can_exchange_on_devices(run.topology, run.machine.device()))
      GTEST_SKIP() << "needs two ranks and a GPU for each; ranks " << test::world().size() << ", GPUs "
                   << cuda::device_count();
  }
};

std::vector<NodeId> ids_of_batch(std::uint64_t batch, std::uint64_t seed) {
  const auto rank = static_cast<std::uint64_t>(test::world().rank());
  const Count count = rank == batch ? 0 : 400 + static_cast<Count>(batch) * 100;
  return test::distinct_ids(count, 1000, seed + 100 * batch + rank);
}

TEST_P(RowFetcherOnGpu, ReadsRowsOfAllMachines) {
  std::uint64_t seed = 1;
  for (const double on_gpu : {0.0, 0.4, 1.0}) {
    for (const Count cols : {1, 6, 32}) {
      const Count kept = cols == 6 ? 3 : 0;  // with a halo cache and without
      Stage stage({.ranks_per_machine = GetParam().ranks_per_machine,
                   .on_devices = GetParam().on_devices,
                   .cap = GetParam().cap},
                  {.cols = cols, .dtype = DType::f16, .seed = ++seed, .on_gpu = on_gpu, .kept = kept});
      for (std::uint64_t batch = 0; batch < 3; ++batch) {
        auto ids = ids_of_batch(batch, seed);
        EXPECT_EQ(test::fetched(*stage.fetcher, stage.run.machine.device(), ids, cols),
                  stage.table.expected(ids))
            << "on GPU " << on_gpu << ", columns " << cols << ", batch " << batch;
        std::erase(ids, -1);
        EXPECT_EQ(test::fetched(*stage.fetcher, stage.run.machine.device(), ids, cols, test::IdOrder::given),
                  stage.table.expected(ids))
            << "sorted, on GPU " << on_gpu << ", columns " << cols << ", batch " << batch;
      }
      stage.close();
    }
  }
}

TEST_P(RowFetcherOnGpu, SplitsLargeFetchesIntoRounds) {
  for (const Count round_bytes : {28, 1000}) {  // one row a round, and some
    Stage stage({.ranks_per_machine = GetParam().ranks_per_machine,
                 .on_devices = GetParam().on_devices,
                 .cap = GetParam().cap,
                 .round_bytes = round_bytes},
                {.rows = 300, .cols = 7, .seed = 4});
    const bool first = test::world().rank() == 0;
    const auto ids = first ? test::distinct_ids(300, 300, 7) : std::vector<NodeId>{299};
    EXPECT_EQ(test::fetched(*stage.fetcher, stage.run.machine.device(), ids, 7), stage.table.expected(ids))
        << round_bytes;
    const RowExchangeReport report = stage.fetcher->report();
    EXPECT_GE(report.seconds, report.waited_seconds);
    stage.close();
  }
}

// What is stored in bf16 loses nothing on the way; what is stored in other types is rounded in the same way
// whatever brings it, the first time and when the exchange is recorded.
TEST_P(RowFetcherOnGpu, SendsRowsInBf16) {
  std::uint64_t seed = 21;
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const Count cols : {1, 6, 9, 32}) {
      for (const double on_gpu : {0.0, 0.4, 1.0}) {
        Stage stage({.ranks_per_machine = GetParam().ranks_per_machine,
                     .on_devices = GetParam().on_devices,
                     .cap = GetParam().cap,
                     .in_bf16 = true},
                    {.cols = cols,
                     .dtype = dtype,
                     .seed = ++seed,
                     .on_gpu = on_gpu,
                     .fine = dtype != DType::bf16,
                     .kept = cols == 6 ? 3 : 0});
        for (std::uint64_t batch = 0; batch < 3; ++batch) {
          const auto ids = ids_of_batch(batch, seed);
          ASSERT_EQ(test::fetched(*stage.fetcher, stage.run.machine.device(), ids, cols),
                    stage.table.expected_in_bf16(stage.run, ids))
              << name_of(dtype) << ", on GPU " << on_gpu << ", columns " << cols << ", batch " << batch;
        }
        const RowExchangeReport report = stage.fetcher->report();
        EXPECT_EQ(report.row_bytes, report.rows_sent * cols * 2);
        stage.close();
      }
    }
  }
}

TEST_P(RowFetcherOnGpu, SendsCompressedRowsAsTheyAreStored) {
  std::uint64_t seed = 70;
  for (const auto code : {RowCode::Kind::i8, RowCode::Kind::i4}) {
    for (const Count cols : {1, 6, 9, 32}) {
      for (const double on_gpu : {0.0, 0.4, 1.0}) {
        Stage stage(
            {.ranks_per_machine = GetParam().ranks_per_machine,
             .on_devices = GetParam().on_devices,
             .cap = GetParam().cap},
            {.cols = cols, .seed = ++seed, .on_gpu = on_gpu, .code = code, .kept = cols == 6 ? 3 : 0});
        for (std::uint64_t batch = 0; batch < 3; ++batch) {
          const auto ids = ids_of_batch(batch, seed);
          ASSERT_EQ(test::fetched(*stage.fetcher, stage.run.machine.device(), ids, cols),
                    stage.table.expected(ids))
              << name_of(code) << ", on GPU " << on_gpu << ", columns " << cols << ", batch " << batch;
        }
        const RowExchangeReport report = stage.fetcher->report();
        EXPECT_EQ(report.row_bytes, report.rows_sent * (RowCode{.kind = code, .cols = cols}.row_bytes()));
        stage.close();
      }
    }
  }
}

const auto name_of_case = [](const auto& info) { return std::string(info.param.name); };

// Without a GPU for every rank, messages between devices go over MPI.
INSTANTIATE_TEST_SUITE_P(Transports, RowFetcherOnGpu,
                         testing::Values(Case{"OneMachineOverMpi", 0, false},
                                         Case{"MachinesOverMpi", 1, false}, Case{"MachinesOverNccl", 1, true},
                                         Case{"MachinesDirectly", 1, true, 1000},
                                         Case{"MachinesDirectlyWithTooLittleRoom", 1, true, 150},
                                         Case{"MachinesDirectlyWithoutRoom", 1, true, 0}),
                         name_of_case);

class RowFetcherBesideReducer : public RowFetcherOnGpu {
  bool needs_nccl() const override { return true; }
};

// A thread fetches while another sums gradients, both over NCCL and each as early as it may.
TEST_P(RowFetcherBesideReducer, NeitherHoldsUpTheOther) {
  constexpr Count kSteps = 200, kCols = 32, kGradients = 100003;
  Stage stage({.ranks_per_machine = 1,
               .on_devices = true,
               .cap = GetParam().cap,
               .ordered = true,
               .in_bf16 = GetParam().in_bf16},
              {.cols = kCols, .seed = 9});
  const Device device = stage.run.machine.device();
  const auto reducer = comm::in_order(
      comm::make_all_reducer(test::world().communicator(), stage.run.topology, device), stage.order);
  ASSERT_STREQ(reducer->name(), "nccl");
  stage.order.begin({.steps = kSteps});
  int wrong = 0;
  std::thread fetching([&] {
    const cuda::DeviceGuard guard(device);
    for (Count step = 0; step < kSteps; ++step) {
      const auto ids = ids_of_batch(static_cast<std::uint64_t>(step), 77);
      wrong += test::fetched(*stage.fetcher, device, ids, kCols) != stage.table.expected(ids);
    }
  });
  const cuda::DeviceGuard guard(device);
  const cuda::Stream stream(device);
  std::vector<float> ones(kGradients, 1.0f);
  const cuda::Array<float> gradients(cuda::Memory::device, kGradients, "gradients", device);
  for (Count step = 0; step < kSteps; ++step) {
    const std::size_t bytes = ones.size() * sizeof(float);
    cuda::copy_async(gradients.data(), ones.data(), bytes, stream);
    reducer->sum(gradients.data(), kGradients, stream);
    stage.order.end_step();
    std::vector<float> sums(ones.size());
    cuda::copy_async(sums.data(), gradients.data(), bytes, stream);
    stream.synchronize();
    EXPECT_EQ(sums.back(), static_cast<float>(test::world().size()));
  }
  fetching.join();
  EXPECT_EQ(wrong, 0);
  reducer->close();
  stage.close();
}

INSTANTIATE_TEST_SUITE_P(OverNccl, RowFetcherBesideReducer,
                         testing::Values(Case{"Rows", 1, true}, Case{"RowsAndIds", 1, true, 1000},
                                         Case{"RowsInBf16AndIds", 1, true, 1000, true}),
                         name_of_case);

}  // namespace
}  // namespace strata::batches
