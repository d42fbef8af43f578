// SPDX-License-Identifier: Apache-2.0
#include "strata/nn/edge_ops.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "strata/nn/candidate_scores.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const cuda::Stream kCpu;

struct Lists {
  std::vector<Count> indptr;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> origins;

  Lists(Count rows, Count edges) : indptr(at(rows + 1), -1), indices(at(edges), -1), origins(at(edges), -1) {}
  SortedEdges out() { return {indptr.data(), indices.data(), origins.data()}; }
  EdgeLists view() const { return {static_cast<Count>(indptr.size()) - 1, indptr.data(), indices.data()}; }
};

struct Pairs {
  Count num_src, num_dst;
  std::vector<std::int64_t> sources, destinations;

  EdgePairs view() const {
    return {num_src, num_dst, static_cast<Count>(sources.size()), sources.data(), destinations.data()};
  }
  Lists sorted() const {
    Lists lists(num_dst, static_cast<Count>(sources.size()));
    sort_edges(view(), lists.out());
    return lists;
  }
};

/// With parallel edges, loops, and nodes without edges.
Pairs random_pairs(Count num_src, Count num_dst, int count, std::uint32_t seed) {
  std::mt19937 random(seed);
  Pairs pairs{num_src, num_dst, {}, {}};
  for (int e = 0; e < count; ++e) {
    pairs.sources.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(num_src)));
    pairs.destinations.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(num_dst)) / 2 *
                                 2);
  }
  return pairs;
}

Lists transposed(const Lists& lists, Count num_src) {
  Lists out(num_src, static_cast<Count>(lists.indices.size()));
  transpose_edges(lists.view(), num_src, out.out());
  return out;
}

std::vector<float> random_floats(Count count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(at(count));
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

TEST(SortEdges, KeepsTheOrderOfADestinationsEdges) {
  const Lists lists = Pairs{3, 2, {2, 0, 1}, {1, 0, 1}}.sorted();
  EXPECT_THAT(lists.indptr, ElementsAre(0, 1, 3));
  EXPECT_THAT(lists.indices, ElementsAre(0, 2, 1));
  EXPECT_THAT(lists.origins, ElementsAre(1, 0, 2));
}

TEST(SortEdges, TakesNoEdges) {
  EXPECT_THAT((Pairs{0, 0, {}, {}}.sorted().indptr), ElementsAre(0));
  EXPECT_THAT((Pairs{5, 2, {}, {}}.sorted().indptr), ElementsAre(0, 0, 0));
}

TEST(SortEdges, RefusesNodesThatDoNotExist) {
  for (const auto& [source, destination] : {std::pair{3, 0}, {-1, 0}, {0, 2}, {0, -1}}) {
    const Pairs pairs{3, 2, {0, source}, {0, destination}};
    try {
      pairs.sorted();
      FAIL() << source << " -> " << destination;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("edge 1 goes from node " + std::to_string(source)));
    }
  }
}

TEST(TransposeEdges, ListsAscendingDestinations) {
  const Pairs pairs = random_pairs(30, 20, 200, 1);
  const Lists lists = pairs.sorted(), out = transposed(lists, 30);
  std::vector<int> seen(200);
  for (Count u = 0; u < 30; ++u) {
    const auto begin = at(out.indptr[at(u)]), end = at(out.indptr[at(u) + 1]);
    EXPECT_TRUE(std::is_sorted(out.indices.begin() + begin, out.indices.begin() + end)) << "source " << u;
    for (std::size_t i = begin; i < end; ++i) {
      const auto pair = at(lists.origins[at(out.origins[i])]);
      EXPECT_EQ(pairs.sources[pair], u);
      EXPECT_EQ(pairs.destinations[pair], out.indices[i]);
      ++seen[pair];
    }
  }
  EXPECT_THAT(seen, testing::Each(1));
}

TEST(SumOverEdges, AddsScaledRows) {
  const Pairs pairs = random_pairs(40, 24, 300, 2);
  const Lists lists = pairs.sorted();
  constexpr Count kCols = 7;
  const auto in = random_floats(40 * kCols, 3), by_edge = random_floats(300, 4),
             by_row = random_floats(24, 5), by_col = random_floats(40, 6), by_self = random_floats(10, 7);
  std::vector<float> out(24 * kCols, NAN);
  std::vector<double> expected(24 * kCols);
  for (std::size_t i = 0; i < 300; ++i) {
    const auto pair = at(lists.origins[i]);
    const auto u = at(pairs.sources[pair]), v = at(pairs.destinations[pair]);
    for (std::size_t c = 0; c < kCols; ++c)
      expected[v * kCols + c] += static_cast<double>(by_row[v]) * by_edge[i] * by_col[u] * in[u * kCols + c];
  }
  for (std::size_t i = 0; i < 10 * kCols; ++i) expected[i] += static_cast<double>(by_self[i / kCols]) * in[i];
  sum_over_edges({.edges = lists.view(),
                  .cols = kCols,
                  .in = in.data(),
                  .edge_scale = by_edge.data(),
                  .row_scale = by_row.data(),
                  .col_scale = by_col.data(),
                  .self_scale = by_self.data(),
                  .num_self = 10,
                  .out = out.data()},
                 kCpu);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-4) << i;
}

TEST(SumOverEdges, LeavesLoopsOut) {
  // Two destinations among three sources; the loops of node 1 would bring what is no number.
  const std::vector<Count> indptr{0, 3, 7}, out_indptr{0, 2, 6, 7};
  const std::vector<std::int32_t> indices{0, 2, 1, 1, 1, 0, 1}, out_indices{0, 1, 0, 1, 1, 1, 0};
  const auto sum = [](const std::vector<Count>& starts, const std::vector<std::int32_t>& ends,
                      const std::vector<float>& in) {
    std::vector<float> out(starts.size() - 1);
    sum_over_edges({.edges = {.rows = std::ssize(out), .indptr = starts.data(), .indices = ends.data()},
                    .cols = 1,
                    .in = in.data(),
                    .skips_loops = true,
                    .out = out.data()},
                   kCpu);
    return out;
  };
  EXPECT_THAT(sum(indptr, indices, {5, 2, 8}), testing::ElementsAre(10, 5));
  EXPECT_EQ(sum(indptr, indices, {5, NAN, 8})[1], 5);
  EXPECT_THAT(sum(out_indptr, out_indices, {3, 4}), testing::ElementsAre(4, 3, 3)) << "the transpose";
}

TEST(JoinSums, PutsRowsBesideTheSumsOfTheirNeighbors) {
  const Pairs pairs = random_pairs(40, 24, 300, 2);
  const Lists lists = pairs.sorted(), out_edges = transposed(lists, 40);
  constexpr std::size_t kCols = 7;
  const auto in = random_floats(40 * kCols, 3), grad_out = random_floats(24 * 2 * kCols, 4);
  std::vector<float> inverse(24, NAN), out(24 * 2 * kCols, NAN), grad_in(40 * kCols, NAN);
  inverse_counts(lists.view(), inverse.data(), kCpu);
  std::vector<double> expected(out.size()), expected_grad(grad_in.size());
  for (std::size_t v = 0; v < 24; ++v) {
    const Count edges = lists.indptr[v + 1] - lists.indptr[v];
    EXPECT_EQ(inverse[v], edges == 0 ? 0.0f : 1.0f / static_cast<float>(edges));
    for (std::size_t c = 0; c < kCols; ++c) {
      expected[2 * v * kCols + kCols + c] = in[v * kCols + c];
      expected_grad[v * kCols + c] += grad_out[2 * v * kCols + kCols + c];
      for (Count e = lists.indptr[v]; e < lists.indptr[v + 1]; ++e) {
        const auto u = at(lists.indices[at(e)]);
        expected[2 * v * kCols + c] += static_cast<double>(inverse[v]) * in[u * kCols + c];
        expected_grad[u * kCols + c] += static_cast<double>(inverse[v]) * grad_out[2 * v * kCols + c];
      }
    }
  }
  join_sums(
      {.edges = lists.view(), .cols = kCols, .in = in.data(), .row_scale = inverse.data(), .out = out.data()},
      kCpu);
  join_sums_grad({.out_edges = out_edges.view(),
                  .num_dst = 24,
                  .cols = kCols,
                  .grad_out = grad_out.data(),
                  .row_scale = inverse.data(),
                  .grad_in = grad_in.data()},
                 kCpu);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-5) << i;
  for (std::size_t i = 0; i < grad_in.size(); ++i) EXPECT_NEAR(grad_in[i], expected_grad[i], 1e-5) << i;
}

TEST(ColumnSums, AddsTheRows) {
  constexpr std::size_t kCols = 7;
  for (const Count rows : {0, 1, 600}) {
    const auto in = random_floats(rows * static_cast<Count>(kCols), 3);
    std::vector<float> out(kCols, NAN), scratch(at(ColumnSums::pieces(rows)) * kCols);
    std::vector<double> expected(kCols);
    for (std::size_t i = 0; i < in.size(); ++i) expected[i % kCols] += in[i];
    column_sums({.rows = rows, .cols = kCols, .in = in.data(), .scratch = scratch.data(), .out = out.data()},
                kCpu);
    for (std::size_t c = 0; c < kCols; ++c) EXPECT_NEAR(out[c], expected[c], 1e-4) << rows << ", " << c;
  }
}

TEST(CandidateScores, AreProductsOfWhichThoseAboveAreCounted) {
  constexpr Count kEdges = 9, kCandidates = 30, kNodes = 12;
  for (const Count cols : {1, 7, 16, 37}) {
    const auto queries = random_floats(kEdges * cols, 3), rows = random_floats(kNodes * cols, 4);
    std::vector<NodeId> ids(kEdges * kCandidates), left_out(kEdges);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<NodeId>(i * i % kNodes);
    for (std::size_t e = 0; e < left_out.size(); ++e) left_out[e] = static_cast<NodeId>(e % kNodes);
    std::vector<float> out(ids.size(), -7), own(kEdges);
    score_candidates({.edges = kEdges,
                      .candidates = kCandidates,
                      .cols = cols,
                      .queries = queries.data(),
                      .rows = rows.data(),
                      .ids = ids.data(),
                      .left_out = left_out.data(),
                      .out = out.data()},
                     kCpu);
    std::vector<Count> above(kEdges, 100), equal(kEdges, 200), expected_above(above), expected_equal(equal);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::size_t edge = i / kCandidates, width = at(cols);
      if (ids[i] == left_out[edge]) {
        EXPECT_TRUE(std::isnan(out[i]));
        continue;
      }
      double expected = 0;
      for (std::size_t c = 0; c < width; ++c)
        expected += static_cast<double>(queries[edge * width + c]) * rows[at(ids[i]) * width + c];
      EXPECT_NEAR(out[i], expected, 1e-5) << cols << ", " << i;
      own[edge] = out[i];
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i % kCandidates >= 20) continue;
      expected_above[i / kCandidates] += out[i] > own[i / kCandidates] ? 1 : 0;
      expected_equal[i / kCandidates] += out[i] == own[i / kCandidates] ? 1 : 0;
    }
    count_scores({.edges = kEdges,
                  .candidates = 20,
                  .row_length = kCandidates,
                  .scores = out.data(),
                  .own = own.data(),
                  .above = above.data(),
                  .equal = equal.data()},
                 kCpu);
    EXPECT_EQ(above, expected_above);
    EXPECT_EQ(equal, expected_equal);
    EXPECT_GT(*std::ranges::max_element(equal), 201) << "ids repeat, and so do their scores";
  }
}

TEST(MaxOverEdges, FindsTheFirstWinnerAndSendsItTheGradient) {
  const Pairs pairs = random_pairs(40, 24, 300, 8);
  const Lists lists = pairs.sorted(), out_edges = transposed(lists, 40);
  constexpr Count kCols = 5;
  const auto in = random_floats(40 * kCols, 9), grad_out = random_floats(24 * kCols, 10);
  std::vector<float> out(24 * kCols, NAN), grad_in(40 * kCols, NAN), expected_grad(40 * kCols);
  std::vector<std::int32_t> winners(24 * kCols, -7);
  max_over_edges({lists.view(), kCols, nullptr, in.data(), out.data(), winners.data()}, kCpu);
  max_over_edges_grad({out_edges.view(), kCols, winners.data(), grad_out.data(), grad_in.data()}, kCpu);
  for (std::size_t v = 0; v < 24; ++v) {
    for (std::size_t c = 0; c < kCols; ++c) {
      std::int32_t best = -1;
      for (auto e = at(lists.indptr[v]); e < at(lists.indptr[v + 1]); ++e) {
        const auto u = at(lists.indices[e]);
        if (best < 0 || in[u * kCols + c] > in[at(best) * kCols + c]) best = lists.indices[e];
      }
      EXPECT_EQ(winners[v * kCols + c], best);
      EXPECT_EQ(out[v * kCols + c], best < 0 ? 0 : in[at(best) * kCols + c]);
      if (best >= 0) expected_grad[at(best) * kCols + c] += grad_out[v * kCols + c];
    }
  }
  for (std::size_t i = 0; i < grad_in.size(); ++i) EXPECT_NEAR(grad_in[i], expected_grad[i], 1e-5) << i;
}

/// Attention on random scores, and its reference in f64.
class AttendOverEdges : public testing::TestWithParam<bool> {
 protected:
  static constexpr Count kHeads = 2, kHeadCols = 3, kCols = kHeads * kHeadCols;
  static constexpr float kSlope = 0.3f;
  Count num_src = 12, num_dst = 18;  // more destinations than sources: the last have no loop
  Pairs pairs = random_pairs(num_src, num_dst, 60, 11);
  Lists lists = pairs.sorted(), out_edges = transposed(lists, num_src);
  std::vector<float> rows = random_floats(num_src * kCols, 12), weights = random_floats(kCols, 13),
                     dst_scores = random_floats(num_dst * kHeads, 14),
                     src_scores = std::vector<float>(at(num_src * kHeads));
  std::vector<float> out = std::vector<float>(at(num_dst * kCols), NAN),
                     log_sums = std::vector<float>(at(num_dst * kHeads), NAN);
  std::vector<std::uint64_t> key{5, 6};
  std::vector<NodeId> ids = [] {
    std::vector<NodeId> all(18);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }();

  EdgeAttention over(double dropout = 0) const {
    return {.edges = lists.view(),
            .out_edges = out_edges.view(),
            .num_src = num_src,
            .heads = kHeads,
            .head_cols = kHeadCols,
            .rows = rows.data(),
            .src_scores = src_scores.data(),
            .dst_scores = dst_scores.data(),
            .dropout = edge_dropout(dropout, key.data(), ids.data()),
            .slope = kSlope,
            .self_loops = GetParam()};
  }

  void attend(double dropout = 0) {
    score_heads({num_src, kHeads, kHeadCols, rows.data(), weights.data(), src_scores.data()}, kCpu);
    attend_over_edges({over(dropout), log_sums.data(), out.data()}, kCpu);
  }

  std::vector<std::pair<Count, Count>> edges() const {
    std::vector<std::pair<Count, Count>> all;
    for (std::size_t e = 0; e < pairs.sources.size(); ++e)
      if (!GetParam() || pairs.sources[e] != pairs.destinations[e])
        all.emplace_back(pairs.sources[e], pairs.destinations[e]);
    for (Count v = 0; GetParam() && v < std::min(num_src, num_dst); ++v) all.emplace_back(v, v);
    return all;
  }

  double score(Count u, Count v, Count head) const {
    double dot = 0;
    for (Count c = 0; c < kHeadCols; ++c)
      dot +=
          static_cast<double>(rows[at(u * kCols + head * kHeadCols + c)]) * weights[at(head * kHeadCols + c)];
    const double raw = dot + dst_scores[at(v * kHeads + head)];
    return raw > 0 ? raw : kSlope * raw;
  }

  double reference(Count v, Count c) const {
    const Count head = c / kHeadCols;
    double sum = 0, total = 0;
    for (const auto& [u, to] : edges()) {
      if (to != v) continue;
      const double weight = std::exp(score(u, v, head));
      sum += weight;
      total += weight * rows[at(u * kCols + c)];
    }
    return sum == 0 ? 0 : total / sum;
  }

  double loss(const std::vector<float>& grad_out) const {
    double sum = 0;
    for (Count v = 0; v < num_dst; ++v)
      for (Count c = 0; c < kCols; ++c) sum += reference(v, c) * grad_out[at(v * kCols + c)];
    return sum;
  }
};

TEST_P(AttendOverEdges, EqualsASoftmax) {
  attend();
  for (Count v = 0; v < num_dst; ++v)
    for (Count c = 0; c < kCols; ++c)
      EXPECT_NEAR(out[at(v * kCols + c)], reference(v, c), 1e-5) << v << ", " << c;
}

TEST_P(AttendOverEdges, HasTheGradientsOfTheReference) {
  attend();
  const auto grad_out = random_floats(num_dst * kCols, 15);
  std::vector<float> means(dst_scores.size()), grad_src(src_scores.size()), grad_dst(dst_scores.size()),
      grad_rows(rows.size());
  attend_over_edges_grad({.over = over(),
                          .log_sums = log_sums.data(),
                          .src_weights = weights.data(),
                          .grad_out = grad_out.data(),
                          .means = means.data(),
                          .grad_src_scores = grad_src.data(),
                          .grad_dst_scores = grad_dst.data(),
                          .grad_rows = grad_rows.data()},
                         kCpu);
  const auto difference = [&](float& value) {
    const float before = value;
    value = before + 1e-3f;
    const double above = loss(grad_out), step = static_cast<double>(value) - before;
    value = before;
    return (above - loss(grad_out)) / step;
  };
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(grad_rows[i], difference(rows[i]), 0.02) << i;
  for (std::size_t i = 0; i < dst_scores.size(); ++i)
    EXPECT_NEAR(grad_dst[i], difference(dst_scores[i]), 0.02) << i;
}

TEST_P(AttendOverEdges, RepeatsTheDropoutOfAKey) {
  attend(0.5);
  const auto before = out;
  attend(0.5);
  EXPECT_EQ(out, before);
  key[1] += 1;
  attend(0.5);
  EXPECT_NE(out, before);
}

INSTANTIATE_TEST_SUITE_P(SelfLoops, AttendOverEdges, testing::Bool());

/// Attention by dot products, and its reference in f64.
class AttendByDots : public testing::Test {
 protected:
  static constexpr Count kHeads = 2, kHeadCols = 19, kCols = kHeads * kHeadCols;
  Count num_src = 12, num_dst = 18;
  Lists lists = random_pairs(num_src, num_dst, 60, 11).sorted(), out_edges = transposed(lists, num_src);
  std::vector<float> rows = random_floats(num_src * 2 * kCols, 12),
                     queries = random_floats(num_dst * kCols, 13), log_sums, out;

  DotAttention over() const {
    return {.edges = lists.view(),
            .out_edges = out_edges.view(),
            .num_src = num_src,
            .heads = kHeads,
            .head_cols = kHeadCols,
            .queries = queries.data(),
            .rows = rows.data()};
  }

  void attend() {
    for (float& query : queries) query /= 4;
    log_sums.assign(at(num_dst * kHeads), NAN);
    out.assign(at(num_dst * kCols), NAN);
    attend_by_dots({over(), log_sums.data(), out.data()}, kCpu);
  }

  double reference(Count v, Count c) const {
    const Count head = c / kHeadCols * kHeadCols;
    double sum = 0, total = 0;
    for (Count e = lists.indptr[at(v)]; e < lists.indptr[at(v) + 1]; ++e) {
      const Count u = lists.indices[at(e)];
      double score = 0;
      for (Count i = head; i < head + kHeadCols; ++i)
        score += static_cast<double>(queries[at(v * kCols + i)]) * rows[at(2 * u * kCols + i)];
      sum += std::exp(score);
      total += std::exp(score) * rows[at((2 * u + 1) * kCols + c)];
    }
    return sum == 0 ? 0 : total / sum;
  }

  double loss(const std::vector<float>& grad_out) const {
    double sum = 0;
    for (Count v = 0; v < num_dst; ++v)
      for (Count c = 0; c < kCols; ++c) sum += reference(v, c) * grad_out[at(v * kCols + c)];
    return sum;
  }
};

TEST_F(AttendByDots, EqualsASoftmax) {
  attend();
  for (Count v = 0; v < num_dst; ++v)
    for (Count c = 0; c < kCols; ++c)
      EXPECT_NEAR(out[at(v * kCols + c)], reference(v, c), 1e-5) << v << ", " << c;
}

TEST_F(AttendByDots, HasTheGradientsOfTheReference) {
  attend();
  const auto grad_out = random_floats(num_dst * kCols, 15);
  std::vector<float> means(log_sums.size(), NAN), grad_queries(queries.size(), NAN),
      grad_rows(rows.size(), NAN);
  attend_by_dots_grad({.over = over(),
                       .log_sums = log_sums.data(),
                       .grad_out = grad_out.data(),
                       .means = means.data(),
                       .grad_queries = grad_queries.data(),
                       .grad_rows = grad_rows.data()},
                      kCpu);
  const auto expect_gradients = [&](std::vector<float>& values, const std::vector<float>& grads) {
    for (std::size_t i = 0; i < values.size(); i += 7) {
      const float before = values[i];
      values[i] = before + 1e-3f;
      const double above = loss(grad_out), step = static_cast<double>(values[i]) - before;
      values[i] = before;
      EXPECT_NEAR(grads[i], (above - loss(grad_out)) / step, 0.02) << i;
    }
  };
  expect_gradients(queries, grad_queries);
  expect_gradients(rows, grad_rows);
}

}  // namespace
}  // namespace strata::nn
