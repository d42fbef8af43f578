// SPDX-License-Identifier: Apache-2.0
#include "strata/dgs/group.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

/// One rank that works on the host.
Group make_group() { return {comm::solo_backend(), Device{}}; }

std::shared_ptr<ChunkTensor> make_counting(Group& group, Count rows, Count cols) {
  auto tensor = group.create({.rows = rows, .cols = cols, .dtype = DType::i32, .capacity_per_gpu = 1000});
  std::vector<std::int32_t> values(at(rows * cols));
  std::iota(values.begin(), values.end(), 0);
  tensor->load(values.data(), group.pool());
  return tensor;
}

TEST(DgsGroup, GivesRowsOfTheHost) {
  Group group = make_group();
  const auto tensor = make_counting(group, 50, 3);
  EXPECT_EQ(tensor->host().rows, 50);
  EXPECT_EQ(tensor->own_gpu().rows, 0);
  EXPECT_EQ(group.allocated_bytes(), 0);
  const std::vector<std::int64_t> ids{49, 0, 49, 7};
  std::vector<std::int32_t> rows(12);
  tensor->index({.data = ids.data(), .size = 4, .wide = true}, {.data = rows.data(), .dtype = DType::i32}, {},
                group.pool());
  EXPECT_EQ(rows, (std::vector<std::int32_t>{147, 148, 149, 0, 1, 2, 147, 148, 149, 21, 22, 23}));
  const std::vector<std::int64_t> wrong{0, 50};
  EXPECT_THROW(tensor->check({.data = wrong.data(), .size = 2, .wide = true}), std::out_of_range);
}

TEST(DgsGroup, ReturnsMemoryAtTheNextCreation) {
  Group group = make_group();
  std::weak_ptr<ChunkTensor> dropped = make_counting(group, 10, 1);
  EXPECT_FALSE(dropped.expired()) << "no destructor returns it";
  const auto kept = make_counting(group, 10, 1);
  EXPECT_TRUE(dropped.expired());
  EXPECT_FALSE(kept->is_closed());
}

TEST(DgsGroup, RefusesToReturnWhatSomebodyHolds) {
  Group group = make_group();
  auto tensor = make_counting(group, 10, 1);
  auto view = tensor;
  EXPECT_THROW(group.close(tensor), InputError);
  EXPECT_THROW(group.close(), InputError);
  EXPECT_FALSE(tensor->is_closed());
  view.reset();
  group.close(tensor);
  EXPECT_TRUE(tensor->is_closed());
  EXPECT_THROW(tensor->host(), InputError);
  EXPECT_THROW(group.close(tensor), InputError);
  group.close();
}

}  // namespace
}  // namespace strata::dgs
