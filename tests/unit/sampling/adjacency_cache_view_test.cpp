// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/store/graph_view.hpp"
#include "support/reference_sampler.hpp"

namespace strata::store {
namespace {

using test::ViewOptions;

class ListCopiesOfAView : public testing::TestWithParam<ViewOptions::Copied> {};

// The arrays themselves are wrong where there are copies.
TEST_P(ListCopiesOfAView, HaveTheEntriesOfTheLists) {
  const test::PlainGraph graph =
      test::random_graph({.num_nodes = 1003, .mean_degree = 5, .hub_degree = 300, .seed = 3});
  const test::ViewOwner owner(graph, {.segments = 3, .copied = GetParam()});
  const GraphView& view = owner.view();
  struct Indptr {
    const GraphView& view;
    Count operator[](Count v) const { return *element(view.indptr, view.copies.indptr, v); }
  };
  const Indptr indptr{view};
  for (Count v = 0; v < view.num_local; ++v) {
    ASSERT_EQ(indptr[v + 1], graph.indptr[at(v) + 1]);
    const Count position = position_of_list(view.copies.lists, indptr, v, indptr[v]);
    for (Count i = 0; i < graph.degree(v); ++i) {
      const auto edge = at(indptr[v] + i);
      const auto* const indices = static_cast<const std::int32_t*>(view.indices.data);
      const auto* const edge_ids = static_cast<const std::int32_t*>(view.edge_ids.data);
      ASSERT_EQ(*entry(indices, view.copies.indices, position + i), graph.indices[edge]) << v;
      ASSERT_EQ(*entry(edge_ids, view.copies.edge_ids, position + i), graph.edge_ids[edge]) << v;
      ASSERT_EQ(*entry(view.weights, view.copies.weights, position + i), graph.weights[edge]) << v;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shares, ListCopiesOfAView,
    testing::Values(ViewOptions::Copied{0, 0}, ViewOptions::Copied{0.4, 0}, ViewOptions::Copied{0, 0.4},
                    ViewOptions::Copied{0.3, 0.4}, ViewOptions::Copied{0.5, 0.5}, ViewOptions::Copied{1, 0},
                    ViewOptions::Copied{0, 1}),
    [](const auto& info) {
      const auto percent = [](double share) { return std::to_string(static_cast<int>(100 * share + 0.5)); };
      return percent(info.param.replicated) + "replicated" + percent(info.param.striped) + "striped";
    });

}  // namespace
}  // namespace strata::store
