// SPDX-License-Identifier: Apache-2.0
#include "strata/sampling/one_hop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <vector>

#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::sampling {
namespace {

/// Node v has degree 3 v, of which every fifth neighbor has weight 0.
struct Lists {
  std::vector<std::int64_t> indptr{0}, indices;
  std::vector<float> weights;

  explicit Lists(Count nodes) {
    for (Count v = 0; v < nodes; ++v) {
      for (Count j = 0; j < 3 * v; ++j) {
        indices.push_back(1000 * v + j);
        weights.push_back(j % 5 == 0 ? 0.0F : static_cast<float>(j));
      }
      indptr.push_back(static_cast<std::int64_t>(indices.size()));
    }
  }

  HopArrays arrays(bool weighted) const {
    HopArrays arrays{.indptr = PiecedArray::of(indptr.data(), std::ssize(indptr), DType::i64),
                     .indices = PiecedArray::of(indices.data(), std::ssize(indices), DType::i64),
                     .weights = {}};
    if (weighted) arrays.weights = PiecedArray::of(weights.data(), std::ssize(weights), DType::f32);
    return arrays;
  }
};

struct Picked {
  std::vector<std::int64_t> seeds, neighbors;
  bool operator==(const Picked&) const = default;
};

Picked pick(const HopArrays& arrays, const std::vector<std::int64_t>& seeds, const HopRule& rule) {
  ThreadPool pool(2);
  const auto hop = make_hop(arrays, {.data = seeds.data(), .size = std::ssize(seeds), .wide = true}, rule,
                            {.stream = {}, .allocate = {}, .pool = &pool});
  Picked picked;
  picked.seeds.resize(at(hop->num_edges()));
  picked.neighbors.resize(picked.seeds.size());
  hop->choose({.seeds = picked.seeds.data(), .neighbors = picked.neighbors.data()});
  return picked;
}

TEST(OneHop, TakesShortListsWholeAndNoNeighborTwice) {
  const Lists lists(30);
  const std::vector<std::int64_t> seeds{29, 0, 2, 3, 29};
  const Picked picked = pick(lists.arrays(false), seeds, {.fanout = 7, .key = 1});
  EXPECT_EQ(picked.seeds.size(), 7U + 0 + 6 + 7 + 7);
  EXPECT_EQ(std::vector(picked.neighbors.begin() + 7, picked.neighbors.begin() + 13),
            (std::vector<std::int64_t>{2000, 2001, 2002, 2003, 2004, 2005}));
  EXPECT_EQ(std::set(picked.neighbors.begin(), picked.neighbors.begin() + 7).size(), 7U);
  EXPECT_NE(std::vector(picked.neighbors.begin(), picked.neighbors.begin() + 7),
            std::vector(picked.neighbors.end() - 7, picked.neighbors.end()))
      << "an entry has a key of its own";
}

TEST(OneHop, TellsWhereTheEdgesOfASeedBegin) {
  const Lists lists(30);
  const std::vector<std::int64_t> seeds{29, 0, 2, 3, 29};
  const HopRule rule{.fanout = 7, .key = 1};
  ThreadPool pool(2);
  const auto hop =
      make_hop(lists.arrays(false), {.data = seeds.data(), .size = std::ssize(seeds), .wide = true}, rule,
               {.stream = {}, .allocate = {}, .pool = &pool});
  std::vector<Count> starts(seeds.size() + 1, -1);
  hop->starts(starts.data());
  EXPECT_EQ(starts, (std::vector<Count>{0, 7, 7, 13, 20, 27}));
  std::vector<std::int64_t> neighbors(27, -1);
  hop->choose({.seeds = nullptr, .neighbors = neighbors.data()});
  EXPECT_EQ(neighbors, pick(lists.arrays(false), seeds, rule).neighbors);

  std::vector<std::int64_t> with_seeds(neighbors.size() + seeds.size(), -1), expected;
  hop->choose({.seeds = nullptr, .neighbors = with_seeds.data(), .and_seeds = true});
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    expected.insert(expected.end(), neighbors.begin() + starts[i], neighbors.begin() + starts[i + 1]);
    expected.push_back(seeds[i]);
  }
  EXPECT_EQ(with_seeds, expected);
}

TEST(OneHop, NeverTakesAWeightOfZero) {
  const Lists lists(30);
  for (const Replacement replacement : {Replacement::without, Replacement::with}) {
    const Picked picked =
        pick(lists.arrays(true), {29, 1, 5}, {.fanout = 12, .replacement = replacement, .key = 3});
    for (const std::int64_t neighbor : picked.neighbors) EXPECT_NE(neighbor % 1000 % 5, 0) << neighbor;
    // Node 1 has two neighbors of weight above 0, node 5 twelve.
    EXPECT_EQ(picked.neighbors.size(), replacement == Replacement::with ? 36U : 26U);
  }
}

TEST(OneHop, NamesAWeightThatIsNone) {
  for (const float wrong : {NAN, -NAN, INFINITY, -INFINITY, -0.5F}) {
    Lists lists(30);
    lists.weights[at(lists.indptr[17]) + 4] = wrong;
    for (const Replacement replacement : {Replacement::without, Replacement::with}) {
      const HopRule rule{.fanout = 3, .replacement = replacement, .key = 3};
      test::expect_error<InputError>(
          [&] {
            pick(lists.arrays(true), {29, 17, 5}, rule);
          },
          {"probability of index 412 is negative, infinite or not a number"});
      EXPECT_FALSE(pick(lists.arrays(true), {29, 16, 18}, rule).neighbors.empty()) << "other lists";
    }
  }
}

TEST(OneHop, ReadsArraysInPieces) {
  const Lists lists(40);
  const std::vector<std::int64_t> seeds{39, 7, 20, 0, 1, 39};
  const auto cut = [](const auto& values, DType dtype) {
    const auto size = std::ssize(values);
    const auto piece = size / 5;
    PiecedArray array{.rest = values.data() + 2 * piece,
                      .piece_size = piece,
                      .in_pieces = 2 * piece,
                      .size = size,
                      .dtype = dtype};
    array.pieces[0] = values.data();
    array.pieces[1] = values.data() + piece;
    return array;
  };
  for (const bool weighted : {false, true}) {
    HopArrays arrays{
        .indptr = cut(lists.indptr, DType::i64), .indices = cut(lists.indices, DType::i64), .weights = {}};
    if (weighted) arrays.weights = cut(lists.weights, DType::f32);
    const HopRule rule{.fanout = 10, .key = 9};
    EXPECT_EQ(pick(arrays, seeds, rule), pick(lists.arrays(weighted), seeds, rule));
  }
}

TEST(OneHop, RefusesWhatCannotBe) {
  const Lists lists(5);
  EXPECT_THROW(pick(lists.arrays(false), {0}, {.fanout = -2}), InputError);
  EXPECT_THROW(pick(lists.arrays(true), {0}, {.fanout = -1}), InputError);
  EXPECT_THROW(pick(lists.arrays(false), {0}, {.fanout = -1, .replacement = Replacement::with}), InputError);
  EXPECT_THROW(pick(lists.arrays(false), {0, 5}, {.fanout = 1}), std::out_of_range);
  EXPECT_THROW(pick(lists.arrays(false), {-1}, {.fanout = 1}), std::out_of_range);
  Lists broken(5);
  broken.indptr[3] = 1000;
  EXPECT_THROW(pick(broken.arrays(false), {2}, {.fanout = 1}), InputError);
}

}  // namespace
}  // namespace strata::sampling
