// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_exchange.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "strata/util/error.hpp"
#include "support/run_setup.hpp"

namespace strata::train {
namespace {

constexpr Count kRowCols = 3;

/// What a rank read in a step: rank 1 nothing, the others two batches with rows that all of them share, and one of
/// no node.
std::vector<RowGradients> gradients_of(int rank) {
  if (rank == 1) return {};
  const auto filled = [&](Count rows, double value) { return at::full({rows, kRowCols}, value); };
  return {{at::tensor({1L, 7L, 0L}), filled(3, 0.1 * (rank + 1)), true},
          {at::tensor({2L, 1L}), filled(2, rank + 1), true}};
}

LearnedRows make_rows() {
  return LearnedRows({.types = {{"node", {0, 7}}}, .cols = kRowCols, .learning_rate = 0.1, .seed = 2});
}

TEST(GradientExchange, GivesAllRanksTheRowsOfAllInTheirOrder) {
  const comm::Communicator& world = test::world().communicator();
  test::RunSetup setup(0);
  GradientExchange exchange(setup.ranks(), nullptr, 0);
  LearnedRows rows = make_rows(), alone = make_rows();
  RowGradients wanted;
  for (int rank = 0; rank < world.size(); ++rank) {
    for (const RowGradients& batch : gradients_of(rank)) {
      const RowGradients kept = rows.without_padding(batch);
      if (!wanted.rows.defined())
        wanted = kept;
      else
        wanted = {at::cat({wanted.rows, kept.rows}), at::cat({wanted.gradients, kept.gradients})};
    }
  }
  const cuda::Stream stream(Device{});
  for (int step = 0; step < 2; ++step) {
    exchange.prepare(rows, gradients_of(world.rank()));
    exchange.exchange(stream);
    const RowGradients all = exchange.take();
    const RowGradients kept = rows.without_padding(all);
    EXPECT_TRUE(kept.rows.equal(wanted.rows));
    EXPECT_TRUE(kept.gradients.equal(wanted.gradients));
    rows.update(all, {});
    alone.update({wanted.rows, wanted.gradients}, {});
  }
  EXPECT_TRUE(rows.table().equal(alone.table()));
  EXPECT_NO_THROW(require_equal_rows(rows, world));
  if (world.size() > 1) {
    if (world.rank() > 0) rows.table()[3][1] += 1;
    EXPECT_THROW(require_equal_rows(rows, world), Error);
  }
  exchange.close();
  setup.machine.close();
}

}  // namespace
}  // namespace strata::train
