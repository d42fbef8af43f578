// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/embedding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "strata/util/error.hpp"
#include "support/mpi_world.hpp"
#include "support/row_lists.hpp"

namespace strata::batches {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr Count kRows = 1000, kCols = 3;

class EmbeddingTest : public testing::TestWithParam<int> {  // of ranks per machine
 protected:
  EmbeddingOptions options(RowOptimizer optimizer) const {
    return {.rows = kRows, .cols = kCols, .optimizer = optimizer};
  }
  std::vector<float> all(Embedding& embedding, int part = 0) const {
    std::vector<NodeId> ids(kRows);
    std::iota(ids.begin(), ids.end(), 0);
    std::vector<float> rows(at(kRows * embedding.parts()[at(part)].cols));
    embedding.gather(part, ids.data(), kRows, rows.data(), {});
    return rows;
  }

  std::shared_ptr<Runtime> runtime_ = std::make_shared<Runtime>(
      test::world(),
      comm::TopologyOptions{.ranks_per_machine = GetParam(), .compute = comm::TopologyOptions::Compute::cpu});
  int rank_ = test::world().rank(), size_ = test::world().size();
};

TEST_P(EmbeddingTest, AddsTheGradientsOfAllRanksInTheirOrder) {
  Embedding embedding(runtime_, options(RowOptimizer::sgd));
  embedding.initialize(5, 0.5);
  const std::vector<float> before = all(embedding);
  std::vector<float> wanted = before, sums(at(kRows * kCols));
  for (int rank = 0; rank < size_; ++rank) {
    const Count count =
        rank == 1 ? 0 : 40;  // rank 1 has none; below 32 of a row, terms are added one after the other
    const test::RowList list =
        test::row_list({.rows = kRows, .count = count, .cols = kCols, .seed = static_cast<unsigned>(rank)});
    if (rank == rank_) {
      std::vector<float> gathered(at(count * kCols));
      embedding.gather(0, list.rows.data(), count, gathered.data(), {});
      for (Count i = 0; i < count * kCols; ++i) {
        const NodeId row = list.rows[at(i / kCols)];
        ASSERT_EQ(gathered[at(i)], row < 0 ? 0 : before[at(row * kCols + i % kCols)]);
      }
    } else if (runtime_->topology().num_machines() > 1) {
      embedding.gather(0, nullptr, 0, nullptr, {});
    }
    std::vector<float> of_rank(sums.size());
    for (Count i = 0; i < count * kCols; ++i)
      if (const NodeId row = list.rows[at(i / kCols)]; row >= 0)
        of_rank[at(row * kCols + i % kCols)] += list.gradients[at(i)];
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of_rank[i];
  }
  const test::RowList mine = test::row_list(
      {.rows = kRows, .count = rank_ == 1 ? 0 : 40, .cols = kCols, .seed = static_cast<unsigned>(rank_)});
  embedding.update(mine.rows.data(), mine.count(), mine.gradients.data(), {.rate = 0.5, .scale = 2}, {});
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] -= sums[i];
  EXPECT_EQ(all(embedding), wanted);
  EXPECT_EQ(embedding.updates(), 1);
  embedding.close();
}

TEST_P(EmbeddingTest, WritesRowsOfAllMachinesAndKeepsTheLast) {
  Embedding embedding(runtime_, options(RowOptimizer::adam));
  embedding.initialize(0, 0);
  for (int part = 0; part < 3; ++part) {
    const std::vector<NodeId> ids{999, 5, 999, -1, 100 + rank_};
    std::vector<float> rows(ids.size() * kCols);
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(i * kCols), kCols,
                  static_cast<float>(10 * rank_ + i));
    embedding.write(part, ids.data(), std::ssize(ids), rows.data(), {});
    const std::vector<float> written = all(embedding, part);
    const auto row = [&](NodeId id) {
      return std::vector(&written[at(id * kCols)], &written[at(id * kCols)] + kCols);
    };
    EXPECT_THAT(row(999), Each(10 * (size_ - 1) + 2));
    EXPECT_THAT(row(5), Each(10 * (size_ - 1) + 1));
    for (int rank = 0; rank < size_; ++rank) EXPECT_THAT(row(100 + rank), Each(10 * rank + 4));
    EXPECT_THAT(row(6), Each(0));
  }
  embedding.close();
}

TEST_P(EmbeddingTest, RefusesWhatCannotBe) {
  EXPECT_THROW(Embedding(runtime_, {.rows = -1, .cols = 2}), InputError);
  EXPECT_THROW(Embedding(runtime_, {.rows = 1, .cols = 0}), InputError);
  EXPECT_THROW(Embedding(runtime_, {.rows = 9, .cols = 2, .machine_offsets = {0, 3}}), InputError);
  EXPECT_THROW(Embedding(runtime_, {.rows = 9, .cols = 2, .placement = RowPlacement::striped}), InputError);
}

INSTANTIATE_TEST_SUITE_P(RanksPerMachine, EmbeddingTest, testing::Values(0, 1));

}  // namespace
}  // namespace strata::batches
