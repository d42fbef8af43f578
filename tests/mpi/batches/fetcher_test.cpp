// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/fetcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include "strata/util/error.hpp"
#include "support/distributed_table.hpp"
#include "support/topologies.hpp"

namespace strata::batches {
namespace {

using test::DistributedTable;
using test::RunSetup;
using testing::HasSubstr;

comm::Topology uneven_machines() { return test::topology_of(test::uneven_machines(test::world().size())); }

/// A fetcher with all that it refers to.
struct Stage {
  const RunSetup run;
  DistributedTable table;
  comm::Communicator communicator;
  ThreadPool pool{2};
  RowFetcher fetcher;

  /// `machines` as RunSetup takes them.
  template <typename Machines>
  Stage(const Machines& machines, const DistributedTable::Options& options,
        Count round_bytes = Count{64} << 20, bool in_bf16 = false)
      : run(machines),
        table(run, options),
        communicator(test::world().communicator().duplicate()),
        fetcher(table.tensor, {},
                {.communicator = &communicator,
                 .topology = &run.topology,
                 .machine_offsets = table.offsets,
                 .machine = run.machine.index(),
                 .round_bytes = round_bytes,
                 .halo = &table.halo,
                 .in_bf16 = in_bf16},
                pool) {}
  void close() {
    table.tensor.close(run.machine);
    communicator.close();
  }
};

/// Of ids in any order and in ascending order.
template <typename Machines>
void expect_fetches(const Machines& machines, const DistributedTable::Options& options, Count count,
                    Count round_bytes = Count{64} << 20) {
  SCOPED_TRACE(testing::Message() << "seed " << options.seed << ", rounds of " << round_bytes << " bytes");
  Stage stage(machines, options, round_bytes);
  for (std::uint64_t batch = 0; batch < 3; ++batch) {
    const auto rank = static_cast<std::uint64_t>(test::world().rank());
    auto ids = test::distinct_ids(count, options.rows, options.seed + 100 * batch + rank, options.lowest);
    ASSERT_EQ(test::fetched(stage.fetcher, {}, ids, options.cols), stage.table.expected(ids))
        << "batch " << batch;
    std::erase(ids, -1);
    ASSERT_EQ(test::fetched(stage.fetcher, {}, ids, options.cols, test::IdOrder::given),
              stage.table.expected(ids))
        << "batch " << batch << ", sorted";
  }
  stage.close();
}

TEST(RowFetcher, ReadsRowsOfOneMachine) { expect_fetches(0, {.seed = 1}, 500); }

TEST(RowFetcher, ReadsRowsOfOtherMachines) {
  std::uint64_t seed = 10;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    expect_fetches(1, {.cols = 9, .dtype = dtype, .seed = ++seed}, 500);
  }
}

// Rank 0 serves all others; of those, the ranks 1, 2 ... share a table, and rank 1 serves rank 0.
TEST(RowFetcher, ReadsRowsOfUnevenMachines) {
  std::uint64_t seed = 70;
  for (const Count kept : {0, 3}) {
    for (const Count round_bytes : {Count{2000}, Count{64} << 20}) {
      expect_fetches(uneven_machines(), {.cols = 9, .seed = ++seed, .kept = kept}, 500, round_bytes);
      expect_fetches(uneven_machines(), {.cols = 9, .seed = ++seed, .code = RowCode::Kind::i8, .kept = kept},
                     500, round_bytes);
    }
  }
}

TEST(RowFetcher, TakesIdsOfMoreThan32Bits) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two machines";
  std::uint64_t seed = 90;
  for (const NodeId border : {NodeId{1} << 31, NodeId{1} << 32}) {  // some ids lie below
    for (const Count kept : {0, 3}) {
      expect_fetches(uneven_machines(), {.seed = ++seed, .kept = kept, .lowest = border - 300}, 500);
      expect_fetches(1, {.seed = ++seed, .kept = kept, .lowest = border - 300}, 500, 2000);
    }
  }
}

// Ranks come to a fetch at different times, and some have another batch by the time that others begin one.
TEST(RowFetcher, BearsDelays) {
  Stage stage(uneven_machines(), {.seed = 11}, 1000);
  const auto rank = static_cast<std::uint64_t>(test::world().rank());
  std::mt19937_64 random(rank);
  for (std::uint64_t batch = 0; batch < 10; ++batch) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 50));
    const auto ids = test::distinct_ids(300, 1000, 100 * batch + rank);
    ASSERT_EQ(test::fetched(stage.fetcher, {}, ids, 7), stage.table.expected(ids)) << "batch " << batch;
  }
  stage.close();
}

// Every third node of the other machines is kept, some of them twice asked for.
TEST(RowFetcher, ReadsRowsOfTheHaloHere) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two machines";
  Stage stage(1, {.cols = 5, .seed = 40, .kept = 3});
  const auto rank = static_cast<std::uint64_t>(test::world().rank());
  std::vector<NodeId> ids = test::distinct_ids(600, 1000, 50 + rank);
  ids.insert(ids.end(), ids.begin(), ids.begin() + 20);
  EXPECT_EQ(test::fetched(stage.fetcher, {}, ids, 5), stage.table.expected(ids));
  Count remote = 0, cached = 0;
  const auto machine = at(stage.run.machine.index());
  for (const NodeId id : ids) {
    if (id < 0 || (id >= stage.table.offsets[machine] && id < stage.table.offsets[machine + 1])) continue;
    ++remote;
    cached += stage.table.halo.find(id) >= 0;
  }
  const RowExchangeReport report = stage.fetcher.report();
  EXPECT_EQ(report.remote_rows, remote);
  EXPECT_EQ(report.cached_rows, cached);
  EXPECT_GT(cached, 50);
  std::vector<std::int64_t> sums{report.bytes_sent, remote - cached};
  test::world().communicator().all_reduce(sums);
  EXPECT_EQ(sums[0], sums[1] * (8 + 5 * 4));
  stage.close();
}

TEST(RowFetcher, WorksWithoutAnExchange) {
  const RunSetup run(0);
  DistributedTable table(run, {.seed = 2});
  ThreadPool pool(1);
  RowFetcher fetcher(table.tensor, {}, {}, pool);
  const auto ids = test::distinct_ids(100, 1000, 5);
  EXPECT_EQ(test::fetched(fetcher, {}, ids, 7), table.expected(ids));
  EXPECT_EQ(fetcher.report().rows, std::ssize(ids));
  EXPECT_EQ(fetcher.report().bytes_sent, 0);
  table.tensor.close(run.machine);
}

TEST(RowFetcher, TakesPartWithoutIds) {
  Stage stage(1, {.seed = 3});
  const bool idle = test::world().rank() == test::world().size() - 1;
  const auto ids = idle ? std::vector<NodeId>() : test::distinct_ids(300, 1000, 6);
  EXPECT_EQ(test::fetched(stage.fetcher, {}, ids, 7), stage.table.expected(ids));
  EXPECT_EQ(test::fetched(stage.fetcher, {}, {}, 7), std::vector<float>());
  stage.close();
}

TEST(RowFetcher, SplitsLargeFetchesIntoRounds) {
  for (const Count round_bytes : {1, 28, 1000}) {  // one row a round, and some
    Stage stage(1, {.rows = 200, .cols = 7, .seed = 4}, round_bytes);
    const bool first = test::world().rank() == 0;
    const auto ids = first ? test::distinct_ids(200, 200, 7) : std::vector<NodeId>{199};
    EXPECT_EQ(test::fetched(stage.fetcher, {}, ids, 7), stage.table.expected(ids)) << round_bytes;
    stage.close();
  }
}

TEST(RowFetcher, SendsCompressedRowsAsTheyAreStored) {
  std::uint64_t seed = 60;
  for (const auto code : {RowCode::Kind::i8, RowCode::Kind::i4}) {
    for (const bool in_bf16 : {false, true}) {
      for (const Count round_bytes : {Count{100}, Count{64} << 20}) {
        Stage stage(1, {.rows = 400, .cols = 13, .seed = ++seed, .code = code, .kept = 7}, round_bytes,
                    in_bf16);
        const auto ids =
            test::distinct_ids(300, 400, seed + static_cast<std::uint64_t>(test::world().rank()));
        EXPECT_EQ(test::fetched(stage.fetcher, {}, ids, 13), stage.table.expected(ids))
            << name_of(code) << ", seed " << seed;
        const RowExchangeReport report = stage.fetcher.report();
        EXPECT_EQ(report.row_bytes, report.rows_sent * (code == RowCode::Kind::i8 ? 20 : 12));
        stage.close();
      }
    }
  }
}

// What is stored in bf16 loses nothing on the way, and half as much travels.
TEST(RowFetcher, SendsRowsInBf16) {
  for (const Count round_bytes : {Count{100}, Count{64} << 20}) {
    Stage stage(1, {.rows = 400, .cols = 5, .dtype = DType::bf16, .seed = 31}, round_bytes, true);
    const auto ids = test::distinct_ids(300, 400, 32 + static_cast<std::uint64_t>(test::world().rank()));
    EXPECT_EQ(test::fetched(stage.fetcher, {}, ids, 5), stage.table.expected(ids)) << round_bytes;
    const RowExchangeReport report = stage.fetcher.report();
    EXPECT_EQ(report.row_bytes, report.rows_sent * 5 * 2);
    std::vector<std::int64_t> sums{report.bytes_sent, report.bytes_received};
    test::world().communicator().all_reduce(sums);
    EXPECT_EQ(sums[0], sums[1]);
    stage.close();
  }
}

TEST(RowFetcher, RoundsRowsOfOtherMachinesInBf16) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two machines";
  for (const DType dtype : {DType::f32, DType::f16}) {
    for (const Count kept : {0, 3}) {
      Stage stage(1, {.rows = 400, .cols = 5, .dtype = dtype, .seed = 33, .fine = true, .kept = kept},
                  Count{64} << 20, true);
      const auto ids = test::distinct_ids(300, 400, 34);
      const std::vector<float> got = test::fetched(stage.fetcher, {}, ids, 5);
      EXPECT_EQ(got, stage.table.expected_in_bf16(stage.run, ids)) << name_of(dtype) << ", kept " << kept;
      const std::vector<float> whole = stage.table.expected(ids);
      EXPECT_GT(std::inner_product(got.begin(), got.end(), whole.begin(), Count{0}, std::plus<>(),
                                   std::not_equal_to<>()),
                100)
          << name_of(dtype) << ": rounding changes values";
      stage.close();
    }
  }
}

TEST(RowFetcher, CountsWhatTravels) {
  Stage stage(1, {.rows = 1000, .cols = 7, .seed = 5});
  std::vector<NodeId> ids(1000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<NodeId>(i);
  test::fetched(stage.fetcher, {}, ids, 7);
  const RowExchangeReport report = stage.fetcher.report();
  const auto machine = at(stage.run.machine.index());
  const Count local = stage.table.offsets[machine + 1] - stage.table.offsets[machine];
  const Count others = test::world().size() - 1;
  EXPECT_EQ(report.rows, 1000);
  EXPECT_EQ(report.remote_rows, 1000 - local);
  EXPECT_EQ(report.bytes_received, (1000 - local) * 28 + others * local * 8);
  EXPECT_EQ(report.bytes_sent, (1000 - local) * 8 + others * local * 28);
  EXPECT_EQ(report.request_bytes, (1000 - local) * 8);
  EXPECT_EQ(report.row_bytes, others * local * 28);
  EXPECT_EQ(report.rows_sent, others * local);
  EXPECT_EQ(report.rows_received, 1000 - local);
  EXPECT_EQ(report.request_messages, others);
  EXPECT_EQ(report.row_messages, others);
  EXPECT_EQ(report.rounds, others > 0 ? 4 : 0)
      << "agreeing on the number of rounds; counts, ids and rows of one";
  EXPECT_EQ(report.repeated_fetches, 0);
  stage.close();
}

// Every row is read where it lies, by its machine: the sum over all machines is that of the ids.
TEST(RowFetcher, CountsTheRowsThatItReads) {
  for (const int ranks_per_machine : {0, 1}) {
    Stage stage(ranks_per_machine, {.rows = 500, .seed = 8});
    const auto ids = test::distinct_ids(300, 500, 9 + static_cast<std::uint64_t>(test::world().rank()));
    test::fetched(stage.fetcher, {}, ids, 7);
    const auto rows = stage.fetcher.rows_by_stratum();
    EXPECT_EQ(rows[tensor::Stratum::replicated], 0);
    std::vector<std::int64_t> sums{rows[tensor::Stratum::host],
                                   std::ranges::count_if(ids, [](NodeId id) { return id >= 0; })};
    test::world().communicator().all_reduce(sums);
    EXPECT_EQ(sums[0], sums[1]);
    stage.close();
  }
}

TEST(RowFetcher, RefusesIdsThatNoMachineHas) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two machines";
  Stage stage(1, {.seed = 6});
  try {
    test::fetched(stage.fetcher, {}, {5, 1000}, 7);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("1000 is not the id of a node (0 to 999)"));
  }
  stage.close();
}

}  // namespace
}  // namespace strata::batches
