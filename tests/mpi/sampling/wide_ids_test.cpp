// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/huge_graphs.hpp"
#include "support/mpi_world.hpp"
#include "support/reference_sampler.hpp"
#include "support/topologies.hpp"

namespace strata::sampling {
namespace {

using test::PlainBlock;
using test::PlainGraph;
using test::Repeated;

constexpr NodeId kShift = NodeId{1} << 31;
constexpr Count kPattern = Count{1} << 20;  // divides kShift
constexpr Count kNodes = 2000;

/// An array over all nodes of the shifted graph, from that of the graph as it is.
template <typename T>
std::unique_ptr<Repeated> shifted_array(const T* values) {
  std::vector<T> pattern(values, values + kNodes);
  pattern.resize(kPattern);
  return std::make_unique<Repeated>(pattern, kShift + kNodes, Device{});
}

/// What a machine has of a graph whose global ids are kShift higher; original ids stay. An owner.
class ShiftedPart {
 public:
  ShiftedPart(const PlainGraph& graph, NodeId first, NodeId last)
      : low_(graph, {.first = first, .last = last, .wide = true}), view_(low_.view()) {
    const auto* indices = static_cast<const std::int64_t*>(view_.indices.data);
    indices_.assign(indices, indices + view_.indices.size);
    for (NodeId& node : indices_) node += kShift;
    original_ids_ = shifted_array(graph.original_ids.data());
    in_degrees_ = shifted_array(view_.in_degrees);
    view_.num_nodes += kShift;
    view_.first_node += kShift;
    view_.indices.data = indices_.data();
    view_.original_ids = {original_ids_->as<std::int64_t>(), view_.num_nodes, true};
    view_.in_degrees = in_degrees_->as<std::int32_t>();
  }
  const store::GraphView& view() const { return view_; }

 private:
  test::ViewOwner low_;
  store::GraphView view_;
  std::vector<std::int64_t> indices_;
  std::unique_ptr<Repeated> original_ids_, in_degrees_;
};

std::vector<NodeId> shifted(std::vector<NodeId> nodes, NodeId by) {
  for (NodeId& node : nodes) node += by;
  return nodes;
}

// Two machines, the second with most of the ranks and nodes.
TEST(WideIds, AreAskedForAsOthers) {
  const comm::World& world = test::world();
  const comm::Topology topology = test::topology_of(test::uneven_machines(world.size()));
  const PlainGraph graph = test::renumbered(test::random_graph({.num_nodes = kNodes, .hub_degree = 5000}), 8);
  const std::vector<NodeId> offsets{0, kNodes / 3, kNodes};
  const auto machine = at(topology.ranks[at(world.rank())].machine);
  const std::vector<NodeId> seeds =
      test::random_nodes(40, 0, kNodes, 5 + static_cast<std::uint64_t>(world.rank()));

  const SamplerOptions options{
      .fanouts = {5, -1, 3}, .max_seeds = 100, .edge_ids = true, .in_degrees = true, .sorted_inputs = true};
  const ShiftedPart part(graph, offsets[machine], offsets[machine + 1]);
  const std::vector<NodeId> high_offsets = shifted(offsets, kShift);
  comm::Communicator communicator = world.communicator().duplicate();
  ThreadPool pool(2);
  const auto sampler = make_sampler(
      part.view(), options,
      {.communicator = &communicator, .topology = &topology, .machine_offsets = high_offsets}, 1, pool);
  const BatchKey key{.seed = 5, .epoch = 1, .step = 17};
  auto blocks = test::plain_blocks(sampler->sample(shifted(seeds, kShift), key, 0, {}), {});
  for (PlainBlock& block : blocks) {
    block.src_nodes = shifted(block.src_nodes, -kShift);
    block.sorted_inputs = shifted(block.sorted_inputs, -kShift);
  }
  test::expect_equal(blocks, test::reference_blocks(graph, seeds, options, key));
  EXPECT_GT(sampler->report().remote_nodes[1], 0);
  communicator.close();
}

}  // namespace
}  // namespace strata::sampling
