// SPDX-License-Identifier: Apache-2.0
#include "strata/dgs/id_maps.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

using Ids = std::vector<std::int64_t>;

IdSpan span_of(const Ids& ids) { return {.data = ids.data(), .size = std::ssize(ids), .wide = true}; }

TEST(Relabeling, NumbersIdsInTheOrderOfTheirAppearance) {
  const Ids ids{7, 3, 7, -9, 3, 1'000'000'000'000};
  const auto numbers = make_relabeling(span_of(ids), {});
  ASSERT_EQ(numbers->num_unique(), 4);
  Ids unique(4), relabeled(4);
  numbers->unique(unique.data());
  EXPECT_EQ(unique, (Ids{7, 3, -9, 1'000'000'000'000}));
  numbers->relabel(span_of({-9, 8, 7, 1'000'000'000'000}), relabeled.data());
  EXPECT_EQ(relabeled, (Ids{2, -1, 0, 3}));
  EXPECT_EQ(make_relabeling(span_of({}), {})->num_unique(), 0);
}

TEST(HotRows, ComeFromTheCacheIfTheTableHasThem) {
  const Ids keys{4, 1}, values{1, 0};
  Ids table_keys(at(capacity_for(2)), -1), table_values(table_keys.size());
  const HashMapView map{.keys = table_keys.data(),
                        .values = table_values.data(),
                        .capacity = std::ssize(table_keys),
                        .wide = true};
  fill(map, span_of(keys), span_of(values), {});
  const std::vector<std::int16_t> cold{0, 0, 1, 1, 2, 2, 3, 3, 4, 4}, hot{10, 10, 40, 40};
  const auto source = [](const std::vector<std::int16_t>& rows) {
    return RowSource{.rows = sampling::PiecedArray::of(rows.data(), std::ssize(rows) / 2, DType::u8),
                     .row_bytes = 4};
  };
  std::vector<std::int16_t> out(6);
  fetch(map, span_of({4, 3, 1}), source(hot), source(cold), out.data(), {});
  EXPECT_EQ(out, (std::vector<std::int16_t>{40, 40, 3, 3, 10, 10}));
  EXPECT_THROW(fetch(map, span_of({5}), source(hot), source(cold), out.data(), {}), std::out_of_range);
  EXPECT_THROW(fill(map, span_of({-4}), span_of({0}), {}), InputError);
}

}  // namespace
}  // namespace strata::dgs
