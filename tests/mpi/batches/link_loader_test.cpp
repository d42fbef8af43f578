// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>
#include <vector>

#include "loader_setup.hpp"
#include "strata/batches/node_loader.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::batches {
namespace {

using test::LoaderSetup;

/// How many ranks a machine has (0: all), whether it has all neighbor lists, and else memory for others' ones.
struct Machines {
  int ranks = 0;
  bool replicated = true;
  std::int64_t halo_bytes = 0;
};
std::ostream& operator<<(std::ostream& out, const Machines& machines) {
  return out << machines.ranks << (machines.replicated ? " replicated " : " divided ") << machines.halo_bytes;
}

/// Of all ranks, one after the other.
std::vector<std::int64_t> gathered(const std::vector<std::int64_t>& mine) {
  const std::string bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(std::int64_t));
  std::vector<std::int64_t> all;
  for (const std::string& blob : test::world().communicator().all_gather(bytes)) {
    const auto* values = reinterpret_cast<const std::int64_t*>(blob.data());
    all.insert(all.end(), values, values + blob.size() / sizeof(std::int64_t));
  }
  return all;
}

class LinkLoaderTest : public testing::TestWithParam<Machines> {
 protected:
  static constexpr Count kLinks = 330, kPerRank = 12;

  LinkLoaderTest() {
    if (!GetParam().replicated) {
      setup_.graph->close();
      setup_.graph =
          Graph::load(setup_.runtime, graph::Source(setup_.directory.string()),
                      {.replication = plan::Replication::off, .halo_bytes = GetParam().halo_bytes});
      const bool keeps_lists = setup_.graph->stored().halo_lists() != nullptr;
      EXPECT_EQ(keeps_lists, GetParam().halo_bytes > 0 && test::world().size() > 1);
    }
    for (NodeId v = 0; v < csc().num_nodes; ++v)
      for (Count e = csc().indptr[at(v)]; e < csc().indptr[at(v) + 1]; ++e)
        edges_.push_back({csc().indices[at(e)], v, csc().edge_ids[at(e)]});
    std::ranges::sort(edges_, {}, &Edge::id);
  }

  struct Edge {
    NodeId source, destination;  // original ids
    EdgeId id;
  };
  const graph::CscGraph& csc() const { return setup_.dataset->structure; }
  /// Every eleventh edge.
  const Edge& edge_of(Count link) const { return edges_[at(11 * link)]; }

  template <typename Change>
  NodeLoaderOptions options(std::vector<int> fanouts, Change change) const {
    LinkOptions links{.sources = {},
                      .destinations = {},
                      .source_candidates = {0, csc().num_nodes},
                      .destination_candidates = {0, csc().num_nodes},
                      .edges = LinkEdges{},
                      .reverse_edges = LinkEdges{}};
    std::vector<NodeId> sources, destinations;
    for (Count link = 0; link < kLinks; ++link) {
      sources.push_back(edge_of(link).source);
      destinations.push_back(edge_of(link).destination);
      links.edges->ids.push_back(edge_of(link).id);
    }
    links.sources.resize(sources.size());
    links.destinations.resize(sources.size());
    setup_.graph->global_ids(sources, links.sources.data());
    setup_.graph->global_ids(destinations, links.destinations.data());
    change(links);
    return {.links = std::make_shared<LinkOptions>(links),
            .batch_size = kPerRank,
            .shuffle = true,
            .seed = 9,
            .sampler = {.fanouts = std::move(fanouts)}};
  }

  /// Ids of the edges that a step with these links leaves out.
  std::set<EdgeId> excluded(const std::vector<std::int64_t>& links) const {
    std::set<EdgeId> ids;
    for (const std::int64_t link : links) {
      ids.insert(edge_of(link).id);
      for (const Edge& other : edges_)
        if (other.source == edge_of(link).destination && other.destination == edge_of(link).source)
          ids.insert(other.id);
    }
    return ids;
  }

  LoaderSetup setup_{GetParam().ranks};
  std::vector<Edge> edges_;
};

TEST_P(LinkLoaderTest, LeavesOutTheLinksOfTheWholeStep) {
  for (const auto& fanouts : {std::vector<int>{-1}, {3, 2}}) {
    NodeLoader loader(setup_.graph, options(fanouts, [](LinkOptions&) {}));
    loader.begin(1);
    std::multiset<std::int64_t> met;
    while (const auto batch = loader.next({})) {
      const std::vector<std::int64_t> links =
          gathered({batch->input_ids, batch->input_ids + batch->num_links});
      met.insert(links.begin(), links.end());
      ASSERT_EQ(std::ssize(links), batch->num_global_seeds);
      for (Count i = 0; i < batch->num_links; ++i) {
        ASSERT_EQ(batch->original_ids()[batch->link_sources[i]], edge_of(batch->input_ids[i]).source);
        ASSERT_EQ(batch->original_ids()[batch->link_destinations[i]],
                  edge_of(batch->input_ids[i]).destination);
      }
      const std::set<EdgeId> gone = excluded(links);
      for (std::size_t hop = 0; hop < fanouts.size(); ++hop) {
        const sampling::Block& block = batch->sample.blocks[fanouts.size() - 1 - hop];
        for (Count dst = 0; dst < block.num_dst; ++dst) {
          const NodeId node = batch->original_ids()[dst];
          Count left = 0;
          for (Count e = csc().indptr[at(node)]; e < csc().indptr[at(node) + 1]; ++e)
            left += gone.contains(csc().edge_ids[at(e)]) ? 0 : 1;
          const Count picks = block.indptr[dst + 1] - block.indptr[dst];
          ASSERT_EQ(picks, fanouts[hop] < 0 ? left : std::min<Count>(left, fanouts[hop])) << "node " << node;
          for (Count e = block.indptr[dst]; e < block.indptr[dst + 1]; ++e)
            ASSERT_FALSE(gone.contains(block.edge_ids[e]));
        }
      }
    }
    EXPECT_EQ(std::ssize(met), kLinks);
    EXPECT_EQ(std::ssize(std::set(met.begin(), met.end())), kLinks);
    loader.close();
  }
}

TEST_P(LinkLoaderTest, DrawsBothEndsOfTheTypesOfARelation) {
  const Count half = csc().num_nodes / 2, rest = csc().num_nodes - half;
  const Range ranges[] = {{0, half}, {half, rest}};
  NodeLoader loader(setup_.graph, options({1}, [&](LinkOptions& links) {
                      links.negatives = {.mode = NegativeOptions::Mode::both, .amount = 2};
                      for (Count link = 0; link < kLinks; ++link)
                        links.relations.of_links.push_back(static_cast<RelationId>(link % 2));
                      links.relations.sources = {ranges[0], ranges[1]};
                      links.relations.destinations = {ranges[1], ranges[0]};
                    }));
  loader.begin(0);
  std::set<std::pair<NodeId, NodeId>> drawn;
  while (const auto batch = loader.next({})) {
    ASSERT_EQ(batch->num_link_sources, 3 * batch->num_links);
    ASSERT_EQ(batch->num_link_destinations, 3 * batch->num_links);
    for (Count i = batch->num_links; i < 3 * batch->num_links; ++i) {
      const auto relation = batch->input_ids[(i - batch->num_links) / 2] % 2;
      const NodeId source = batch->original_ids()[batch->link_sources[i]],
                   destination = batch->original_ids()[batch->link_destinations[i]];
      ASSERT_EQ(source >= half, relation == 1);
      ASSERT_EQ(destination >= half, relation == 0);
      drawn.emplace(source, destination);
    }
  }
  std::int64_t count = std::ssize(drawn);
  test::world().communicator().all_reduce(std::span(&count, 1));
  EXPECT_GT(count, kLinks) << "distinct pairs";
  loader.close();
}

/// What negatives are is said once more here, so that other numbers of ranks have the same.
TEST_P(LinkLoaderTest, DrawsNegativesByStepAndLinkAlone) {
  using Mode = NegativeOptions::Mode;
  for (const Mode mode : {Mode::binary, Mode::triplet}) {
    NodeLoader loader(setup_.graph, options({2}, [&](LinkOptions& links) {
                        links.negatives = {.mode = mode, .amount = 2};
                      }));
    loader.begin(3);
    while (const auto batch = loader.next({})) {
      std::vector<NodeId> drawn;
      for (Count i = 0; i < batch->num_links; ++i) {
        const std::uint64_t key = node_key(batch->key, RandomUse::negative, 0, batch->input_ids[i]);
        for (Count k = 0; k < 2; ++k) {
          const auto end = [&](std::uint64_t which) {
            const std::uint64_t word =
                mix64(key + (static_cast<std::uint64_t>(k) * 12 + which) * 0x9E3779B97F4A7C15ull);
            return static_cast<NodeId>(
                (static_cast<unsigned __int128>(word) * static_cast<std::uint64_t>(csc().num_nodes)) >> 64);
          };
          const Count place = batch->num_links + 2 * i + k;
          if (mode == Mode::binary) {
            ASSERT_EQ(batch->original_ids()[batch->link_sources[place]], end(0));
          }
          ASSERT_EQ(batch->original_ids()[batch->link_destinations[place]], end(1));
        }
      }
      EXPECT_EQ(batch->num_link_destinations, 3 * batch->num_links);
      EXPECT_EQ(batch->num_link_sources, (mode == Mode::binary ? 3 : 1) * batch->num_links);
    }
    loader.close();
  }
}

TEST_P(LinkLoaderTest, DrawsPartsOfANegative) {
  NodeLoader loader(setup_.graph, options({2}, [](LinkOptions& links) {
                      links.negatives = {.mode = NegativeOptions::Mode::binary, .amount = 0.3};
                    }));
  loader.begin(0);
  while (const auto batch = loader.next({})) {
    std::int64_t negatives = batch->num_link_sources - batch->num_links;
    test::world().communicator().all_reduce(std::span(&negatives, 1));
    EXPECT_EQ(negatives, static_cast<Count>(std::ceil(0.3 * static_cast<double>(batch->num_global_seeds))));
  }
  loader.close();
}

/// Those of a group follow from the step and the group alone, and those in a batch are its links' destinations.
TEST_P(LinkLoaderTest, SharesNegativesInGroups) {
  using Mode = NegativeOptions::Mode;
  for (const auto& [mode, group] :
       {std::pair{Mode::joint, Count{0}}, {Mode::joint, 7}, {Mode::in_batch, 0}, {Mode::in_batch, 7}}) {
    NodeLoaderOptions given = options({2}, [&, mode = mode, group = group](LinkOptions& links) {
      links.negatives = {.mode = mode, .amount = 3, .group = group};
    });
    given.shuffle = false;  // numbers follow the links
    NodeLoader loader(setup_.graph, given);
    loader.begin(2);
    Count first = 0;
    while (const auto batch = loader.next({})) {
      const Count of_step = batch->num_global_seeds;
      const Count size = group == 0 ? of_step : std::min(group, of_step);
      const Count width = mode == Mode::joint ? 3 : size;
      ASSERT_EQ(batch->num_link_destinations, batch->num_links + width * batch->num_link_groups);
      for (Count i = 0; i < batch->num_links; ++i) {
        const Count number = (batch->input_ids[i] - first) / size;
        const std::uint64_t key = node_key(batch->key, RandomUse::negative, 1, number);
        for (Count k = 0; k < width; ++k) {
          const std::int64_t place =
              batch->link_destinations[batch->num_links + width * batch->link_groups[i] + k];
          const std::uint64_t word = mix64(key + static_cast<std::uint64_t>(k) * 0x9E3779B97F4A7C15ull);
          const Count member = number * size + k;
          if (mode == Mode::in_batch && member >= of_step) {
            ASSERT_EQ(place, -1);
          } else if (mode == Mode::in_batch) {
            ASSERT_EQ(batch->original_ids()[place], edge_of(first + member).destination);
          } else {
            ASSERT_EQ(batch->original_ids()[place],
                      static_cast<NodeId>((static_cast<unsigned __int128>(word) *
                                           static_cast<std::uint64_t>(csc().num_nodes)) >>
                                          64));
          }
        }
      }
      first += of_step;
    }
    EXPECT_EQ(first, kLinks);
    loader.close();
  }
}

TEST_P(LinkLoaderTest, FindsTheEndsOfEdges) {
  std::vector<EdgeId> ids;
  for (const Edge& edge : edges_) ids.push_back(edge.id);
  EXPECT_EQ(setup_.graph->edges_between(0, ids.back() + 5), ids);
  EXPECT_EQ(setup_.graph->edges_between(ids[3], ids[100]), std::vector(ids.begin() + 3, ids.begin() + 100));
  const Graph::EdgeEnds ends = setup_.graph->ends_of(ids);
  std::vector<NodeId> sources(ids.size()), destinations(ids.size());
  setup_.graph->original_ids(ends.sources, sources.data());
  setup_.graph->original_ids(ends.destinations, destinations.data());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(sources[i], edges_[i].source);
    EXPECT_EQ(destinations[i], edges_[i].destination);
  }
  EXPECT_THROW(setup_.graph->ends_of(std::vector<EdgeId>{edges_.back().id + 1}), std::out_of_range);
  if (test::world().size() == 1) return;
  ids.resize(ids.size() - at(Count{test::world().rank()}));
  test::expect_error<InputError>([&] { setup_.graph->ends_of(ids); }, {"rank 0 names edges with"});
}

TEST_P(LinkLoaderTest, RefusesWhatCannotBeLoaded) {
  const auto refuses = [&](const NodeLoaderOptions& given, const char* message) {
    test::expect_error<InputError>([&] { NodeLoader(setup_.graph, given); }, {message});
  };
  refuses(options({2}, [](LinkOptions& links) { links.sources.pop_back(); }),
          "329 sources and 330 destinations");
  refuses(options({2}, [](LinkOptions& links) { links.edges->ids.pop_back(); }), "329 edges of 330 links");
  refuses(options({2},
                  [](LinkOptions& links) {
                    links.negatives = {.mode = NegativeOptions::Mode::triplet, .amount = 0.5};
                  }),
          "whole number");
  NodeLoaderOptions own = options({2}, [](LinkOptions&) {});
  own.deals = false;
  refuses(own, "links of their own");
}

INSTANTIATE_TEST_SUITE_P(OneMachine, LinkLoaderTest, testing::Values(Machines{}));
INSTANTIATE_TEST_SUITE_P(Machines, LinkLoaderTest,
                         testing::Values(Machines{1}, Machines{1, false}, Machines{1, false, 1 << 22}));

}  // namespace
}  // namespace strata::batches
