// SPDX-License-Identifier: Apache-2.0
#include "strata/store/machine_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "strata/batches/placed_graph.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::store {
namespace {

using test::DatasetOptions;
using test::RunSetup;
using Compute = comm::TopologyOptions::Compute;

const DatasetOptions kDataset{.num_nodes = 2000, .num_edges = 30000, .feature_cols = 50, .seed = 5};
constexpr std::int64_t kLookupBytes = 2001 * 8 + 2000 * 4 + 2000 * 4;
constexpr std::int64_t kIndexBytes = 30000 * 4;
constexpr std::int64_t kFeatureBytes = 2000 * 50 * 4;

class MachineGraphOnGpu : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
};

template <typename T>
std::vector<T> from_device(const T* data, Count size, Device device) {
  const cuda::Stream stream(device);
  std::vector<T> copy(at(size));
  cuda::copy_async(copy.data(), data, copy.size() * sizeof(T), stream);
  stream.synchronize();
  return copy;
}

template <typename T>
std::vector<T> from_host(const T* data, Count size) {
  return {data, data + size};
}

void expect_same_structure(const MachineGraph& loaded, Device device) {
  const GraphView &there = loaded.view(), &here = loaded.host_view();
  EXPECT_EQ(there.device, device);
  EXPECT_EQ(from_device(there.indptr, here.num_local + 1, device),
            from_host(here.indptr, here.num_local + 1));
  EXPECT_EQ(from_device(there.in_degrees, here.num_nodes, device),
            from_host(here.in_degrees, here.num_nodes));
  const auto expect_same_ids = [&](const IdSpan& a, const IdSpan& b) {
    ASSERT_EQ(a.wide, b.wide);
    const auto* there_ids = static_cast<const std::int32_t*>(a.data);
    EXPECT_EQ(from_device(there_ids, a.size, device),
              from_host(static_cast<const std::int32_t*>(b.data), b.size));
  };
  expect_same_ids(there.indices, here.indices);
  ASSERT_EQ(there.weights != nullptr, here.weights != nullptr);
  if (here.weights != nullptr) {
    EXPECT_EQ(from_device(there.weights, here.indices.size, device),
              from_host(here.weights, here.indices.size));
  }
  expect_same_ids(there.original_ids, here.original_ids);
}

void expect_features(const MachineGraph& loaded, const graph::Graph& graph, Device device) {
  const GraphView& view = loaded.host_view();
  const cuda::DeviceGuard guard(device);
  const cuda::Stream stream(device);
  std::vector<NodeId> ids(at(view.num_local));
  std::iota(ids.begin(), ids.end(), view.first_node);
  const Count cols = loaded.features().spec().cols, elements = view.num_local * cols;
  const cuda::Array<NodeId> ids_there(cuda::Memory::device, view.num_local, "ids", device);
  const cuda::Array<float> out(cuda::Memory::device, elements, "out", device);
  cuda::copy_async(ids_there.data(), ids.data(), ids.size() * sizeof(NodeId), stream);
  cuda::fill_async(out.data(), 0xFB, at(elements) * sizeof(float), stream);
  ThreadPool pool(1);
  loaded.features().gather({.data = ids_there.data(), .size = view.num_local, .first = view.first_node},
                           out.data(), stream, pool);
  stream.synchronize();
  const std::vector<float> rows = from_device(out.data(), elements, device),
                           expected = test::features_as_floats(graph);
  for (Count row = 0; row < view.num_local; ++row) {
    const Count original = view.original_ids[view.first_node + row];
    for (Count c = 0; c < cols; ++c) {
      ASSERT_EQ(rows[at(row * cols + c)], expected[at(original * cols + c)]) << row;
    }
  }
}

Count rows_on_gpu(const MachineGraph& loaded) {
  Count sum = 0;
  for (const tensor::Segment& s : loaded.features().placement().segments)
    sum += s[tensor::Stratum::replicated];
  return sum;
}

TEST_P(MachineGraphOnGpu, LoadsParts) {
  const RunSetup run(0, Compute::cuda);
  const auto graph = test::random_dataset(kDataset);
  const auto directory = test::common_folder("gpu_machine_graph");
  std::optional<test::PartitionedDataset> parts;
  if (test::world().rank() == 0) parts.emplace(*graph, 3, directory, 7);
  test::world().communicator().barrier();
  MachineGraph loaded = batches::load_parts(
      directory, run.ranks(), {.edge_weights = true, .in_degrees = true, .gpu_budget_bytes = GetParam()});
  expect_same_structure(loaded, run.machine.device());
  expect_features(loaded, *graph, run.machine.device());
  loaded.close(run.machine);
}

TEST_P(MachineGraphOnGpu, TakesAGraph) {
  const RunSetup run(0, Compute::cuda);
  const auto graph = test::random_dataset(kDataset);
  auto given = run.machine.rank() == 0 ? test::random_dataset(kDataset) : nullptr;
  MachineGraph loaded = batches::take_graph(std::move(given), run.machine,
                                            {.in_degrees = true, .gpu_budget_bytes = GetParam()});
  expect_same_structure(loaded, run.machine.device());
  expect_features(loaded, *graph, run.machine.device());
  if (run.machine.size() == 1 && GetParam() >= kLookupBytes + kIndexBytes + kFeatureBytes) {
    EXPECT_EQ(rows_on_gpu(loaded), 2000);
  }
  if (GetParam() == 0) {
    EXPECT_EQ(rows_on_gpu(loaded), 0);
  }
  loaded.close(run.machine);
}

// Rows of other machines follow those of this one, and are placed like them.
TEST_P(MachineGraphOnGpu, KeepsRowsOfOtherMachines) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two machines: run it with mpirun -n 2";
  const RunSetup run(1, Compute::cuda);
  const auto graph = test::random_dataset(kDataset);
  const auto directory = test::common_folder("gpu_machine_graph_halo");
  std::optional<test::PartitionedDataset> parts;
  if (test::world().rank() == 0) parts.emplace(*graph, test::world().size() + 1, directory, 7);
  test::world().communicator().barrier();
  MachineGraph loaded =
      batches::load_parts(directory, run.ranks(), {.gpu_budget_bytes = GetParam(), .halo_bytes = 150'000});
  expect_features(loaded, *graph, run.machine.device());
  const GraphView& view = loaded.host_view();
  const NodeIndex* halo = loaded.halo_rows();
  ASSERT_NE(halo, nullptr);
  ASSERT_GT(halo->size(), 100);
  EXPECT_EQ(loaded.features().spec().rows, view.num_local + halo->size());

  std::vector<NodeId> ids;
  std::vector<float> expected;
  const std::vector<float> features = test::features_as_floats(*graph);
  const Count cols = loaded.features().spec().cols;
  for (NodeId node = 0; node < view.num_nodes; ++node) {
    const Count kept = halo->find(node);
    if (kept < 0) continue;
    EXPECT_FALSE(view.owns(node));
    ids.push_back(view.num_local + kept);
    const auto row = features.begin() + view.original_ids[node] * cols;
    expected.insert(expected.end(), row, row + cols);
  }
  const Device device = run.machine.device();
  const cuda::DeviceGuard guard(device);
  const cuda::Stream stream(device);
  const cuda::Array<NodeId> ids_there(cuda::Memory::device, std::ssize(ids), "ids", device);
  const cuda::Array<float> out(cuda::Memory::device, std::ssize(expected), "rows", device);
  cuda::copy_async(ids_there.data(), ids.data(), ids.size() * sizeof(NodeId), stream);
  cuda::fill_async(out.data(), 0xFB, expected.size() * sizeof(float), stream);
  ThreadPool pool(1);
  loaded.features().gather({.data = ids_there.data(), .size = std::ssize(ids)}, out.data(), stream, pool);
  stream.synchronize();
  EXPECT_EQ(from_device(out.data(), out.size(), device), expected);
  loaded.close(run.machine);
}

// Nothing on the GPU; lookups alone; indices too; half of the features; all, for one rank and for two that
// share the GPU.
INSTANTIATE_TEST_SUITE_P(Budgets, MachineGraphOnGpu,
                         testing::Values(0, kLookupBytes, kLookupBytes + kIndexBytes,
                                         kLookupBytes + kIndexBytes + kFeatureBytes / 2,
                                         kLookupBytes + kIndexBytes + kFeatureBytes,
                                         2 * (kLookupBytes + kIndexBytes + kFeatureBytes)));

class PlacementOnGpu : public MachineGraphOnGpu {
 protected:
  static constexpr std::int64_t kPlenty = std::int64_t{256} << 20;

  static MachineGraph take(const RunSetup& run, const LoadOptions& options) {
    return batches::take_graph(run.machine.rank() == 0 ? test::random_dataset(kDataset) : nullptr,
                               run.machine, options);
  }
};

TEST_P(PlacementOnGpu, IsAsAskedFor) {
  const RunSetup run(0, Compute::cuda);
  MachineGraph loaded = take(run, {.gpu_budget_bytes = kPlenty,
                                   .placement = plan::parse_placement("features=25/0/75,indices=0/0/100")});
  expect_features(loaded, *test::random_dataset(kDataset), run.machine.device());
  EXPECT_EQ(rows_on_gpu(loaded), 500);
  Count features = 0;
  for (const plan::PlanRow& row : loaded.plan()) {
    ASSERT_TRUE(row.expected.has_value()) << row.tensor;
    EXPECT_GT(row.expected->bytes_per_second, 0) << row.tensor;
    if (row.tensor == "features") features += row.rows;
    if (row.tensor == "indices") {
      EXPECT_EQ(row.stratum, "host");
    }
    if (row.tensor == "indptr") {
      EXPECT_EQ(row.stratum, "replicated");
    }
  }
  EXPECT_EQ(features, 2000);
  loaded.close(run.machine);
}

/// The elements where kernels read them.
std::vector<Count> elements(const Count* data, tensor::ArrayStrata strata, Count size, Device device) {
  std::vector<tensor::SegmentLayout> segments;
  if (strata.num_segments > 1) {
    segments = from_device(strata.segments, strata.num_segments, device);
    strata.segments = segments.data();
  }
  std::vector<Count> values(at(size));
  const cuda::Stream stream(device);
  for (Count i = 0; i < size; ++i)
    cuda::copy_async(&values[at(i)], element(data, strata, i), sizeof(Count), stream);
  stream.synchronize();
  return values;
}

/// Where kernels read the lists.
class ListPositions {
 public:
  ListPositions(const MachineGraph& graph, Device device) : lists_(graph.host_lists()), device_(device) {
    AdjacencyCacheView copies = graph.view().copies.lists;
    const Count num_groups = AdjacencyCacheView::num_groups(lists_.num_local);
    std::vector<AdjacencyCacheView::Group> replicated, striped;
    const auto fetch = [&](const AdjacencyCacheView::Group*& groups,
                           std::vector<AdjacencyCacheView::Group>& here) {
      if (groups == nullptr) return;
      here = from_device(groups, num_groups, device);
      groups = here.data();
    };
    fetch(copies.replicated, replicated);
    fetch(copies.striped, striped);
    for (Count v = 0; v < lists_.num_local; ++v)
      positions_.push_back(position_of_list(copies, lists_.indptr, v, lists_.indptr[v]));
  }
  Count operator[](Count v) const { return positions_[at(v)]; }

  /// The entries of all lists.
  template <typename T>
  std::vector<T> entries(const T* data, const CachedEntries& copies) const {
    std::vector<T> values(at(lists_.indices.size));
    const cuda::Stream stream(device_);
    for (Count v = 0; v < lists_.num_local; ++v) {
      for (Count i = lists_.indptr[v]; i < lists_.indptr[v + 1]; ++i) {
        const T* there = entry(data, copies, (*this)[v] + i - lists_.indptr[v]);
        cuda::copy_async(&values[at(i)], there, sizeof(T), stream);
      }
    }
    stream.synchronize();
    return values;
  }

 private:
  const GraphView& lists_;
  Device device_;
  std::vector<Count> positions_;
};

/// Entries of "indices" that the plan says lie in a stratum.
Count planned(const MachineGraph& graph, const std::string& stratum) {
  Count rows = 0;
  for (const plan::PlanRow& row : graph.plan())
    if (row.tensor == "indices" && row.stratum == stratum) rows += row.rows;
  return rows;
}

struct Requested {
  double replicated, striped;
};

void expect_divided(const MachineGraph& loaded, int num_parts, const Requested& requested, Device device) {
  const GraphView &there = loaded.view(), &here = loaded.host_view();
  const Count num_edges = here.indices.size;
  EXPECT_EQ(there.copies.indptr.num_segments, num_parts);
  EXPECT_EQ(elements(there.indptr, there.copies.indptr, here.num_local + 1, device),
            from_host(here.indptr, here.num_local + 1));
  const ListPositions lists(loaded, device);
  EXPECT_EQ(lists.entries(static_cast<const std::int32_t*>(there.indices.data), there.copies.indices),
            from_host(static_cast<const std::int32_t*>(here.indices.data), num_edges));
  EXPECT_EQ(lists.entries(static_cast<const EdgeId*>(there.edge_ids.data), there.copies.edge_ids),
            from_host(static_cast<const EdgeId*>(here.edge_ids.data), num_edges));
  EXPECT_EQ(lists.entries(there.weights, there.copies.weights), from_host(here.weights, num_edges));

  const auto all = static_cast<double>(num_edges);
  EXPECT_LE(planned(loaded, "replicated"), requested.replicated * all + num_parts);
  EXPECT_NEAR(static_cast<double>(planned(loaded, "replicated")), requested.replicated * all, 0.02 * all);
  EXPECT_NEAR(static_cast<double>(planned(loaded, "striped")), requested.striped * all, 0.02 * all);
  const Count first = there.copies.indices.first, num_replicated = there.copies.indices.num_replicated;
  EXPECT_EQ(num_replicated, planned(loaded, "replicated"));
  Count on_host = 0;
  for (Count v = 0; v < here.num_local; ++v) {
    if (lists[v] < first) on_host += here.indptr[v + 1] - here.indptr[v];
  }
  EXPECT_EQ(on_host, planned(loaded, "host"));
}

LoadOptions divided(const std::string& indices) {
  return {.edge_ids = true,
          .edge_weights = true,
          .gpu_budget_bytes = std::int64_t{256} << 20,
          .placement = plan::parse_placement("indptr=10/50/40,indices=" + indices)};
}

TEST_P(PlacementOnGpu, DividesLists) {
  const RunSetup run(0, Compute::cuda);
  for (const auto& [text, requested] : {std::pair<std::string, Requested>{"20/0/80", {0.2, 0}},
                                        {"0/30/70", {0, 0.3}},
                                        {"20/30/50", {0.2, 0.3}},
                                        {"40/60/0", {0.4, 0.6}},
                                        {"0/100/0", {0, 1}}}) {
    SCOPED_TRACE(text);
    MachineGraph loaded = take(run, divided(text));
    expect_divided(loaded, 1, requested, run.machine.device());
    loaded.close(run.machine);
  }
}

TEST_P(PlacementOnGpu, DividesTheListsOfEachPart) {
  const RunSetup run(0, Compute::cuda);
  const auto graph = test::random_dataset(kDataset);
  const auto directory = test::common_folder("gpu_divided_lists");
  std::optional<test::PartitionedDataset> parts;
  if (test::world().rank() == 0) parts.emplace(*graph, 3, directory, 7);
  test::world().communicator().barrier();
  MachineGraph loaded = batches::load_parts(directory, run.ranks(), divided("20/30/50"));
  expect_divided(loaded, 3, {0.2, 0.3}, run.machine.device());
  loaded.close(run.machine);
}

// How hot the lists of other machines' nodes are is not known there.
TEST_P(PlacementOnGpu, DividesTheListsOfAllMachines) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs two machines: run it with mpirun -n 2";
  const RunSetup run(1, Compute::cuda);
  const auto graph = test::random_dataset(kDataset);
  const auto directory = test::common_folder("gpu_divided_replicas");
  std::optional<test::PartitionedDataset> parts;
  if (test::world().rank() == 0) parts.emplace(*graph, test::world().size() + 1, directory, 7);
  test::world().communicator().barrier();
  MachineGraph loaded = batches::load_parts(directory, run.ranks(),
                                            {.gpu_budget_bytes = kPlenty,
                                             .placement = plan::parse_placement("indices=20/0/80"),
                                             .replication = plan::Replication::on});
  ASSERT_TRUE(loaded.is_replicated());
  const GraphView& view = loaded.view();
  EXPECT_TRUE(view.copies.indices.any());
  EXPECT_NEAR(static_cast<double>(planned(loaded, "replicated")), 0.2 * 30000, 0.02 * 30000);
  const auto* data = static_cast<const std::int32_t*>(view.indices.data);
  EXPECT_EQ(ListPositions(loaded, run.machine.device()).entries(data, view.copies.indices),
            from_host(static_cast<const std::int32_t*>(loaded.host_lists().indices.data), 30000));
  loaded.close(run.machine);
}

// Features stay on the host, so that the lists get what is left.
TEST_P(PlacementOnGpu, CopiesListsWithinTheBudget) {
  if (test::world().size() > 1) GTEST_SKIP() << "ranks divide the budget if they share a GPU";
  const RunSetup run(0, Compute::cuda);
  constexpr std::int64_t kDirectoryBytes = 2000 / 16 * 8;
  for (const std::int64_t budget : {kIndexBytes / 3, kIndexBytes / 2, kIndexBytes - 1}) {
    MachineGraph loaded = take(
        run, {.gpu_budget_bytes = budget,
              .placement = plan::parse_placement("features=0/0/100,indptr=0/0/100,original-ids=0/0/100")});
    const GraphView& view = loaded.view();
    const auto* data = static_cast<const std::int32_t*>(view.indices.data);
    EXPECT_EQ(ListPositions(loaded, run.machine.device()).entries(data, view.copies.indices),
              from_host(static_cast<const std::int32_t*>(loaded.host_view().indices.data), 30000));
    std::int64_t bytes = 0;
    for (const plan::PlanRow& row : loaded.plan())
      if (row.stratum == "replicated") bytes += row.bytes;
    EXPECT_LE(bytes + kDirectoryBytes, budget);
    EXPECT_GE(bytes + kDirectoryBytes, budget - 2000);
    loaded.close(run.machine);
  }
}

TEST_P(PlacementOnGpu, IsRefusedOverTheBudget) {
  const RunSetup run(0, Compute::cuda);
  EXPECT_THROW(take(run, {.gpu_budget_bytes = 1000, .placement = plan::parse_placement("replicate")}),
               InputError);
}

TEST_P(PlacementOnGpu, FollowsCountedAccesses) {
  const RunSetup run(0, Compute::cuda);
  const LoadOptions options{.gpu_budget_bytes = kPlenty,
                            .placement = plan::parse_placement("features=25/0/75")};
  // Batches without neighbors read each training node once in an epoch, most of them among the first 500.
  const auto given = [&] {
    auto graph = test::random_dataset(kDataset);
    std::erase_if(graph->splits.train, [](NodeId v) { return v >= 500 && v % 10 != 0; });
    return graph;
  };
  const std::vector<NodeId> train = given()->splits.train;
  const auto take_given = [&](const batches::FirstBatches& batches) {
    return batches::take_graph(run.machine.rank() == 0 ? given() : nullptr, run.machine, options, batches);
  };
  constexpr Count kBatch = 16;
  ThreadPool pool(1);
  batches::FirstBatches batches{.sampler = {.fanouts = {0}},
                                .global_batch = kBatch,
                                .pool = &pool,
                                .max_batches = 1000,
                                .time_limit = std::chrono::minutes(1)};
  MachineGraph whole = take_given(batches);  // every GPU holds all: nothing hangs on the heat
  EXPECT_EQ(whole.presampled_batches(), 0);
  whole.close(run.machine);
  batches.always = true;
  MachineGraph loaded = take_given(batches);
  const Count steps = (std::ssize(train) + kBatch - 1) / kBatch;
  EXPECT_EQ(loaded.presampled_batches(), steps * run.machine.size());
  const auto first = std::ranges::count_if(train, [](NodeId v) { return v < 500; });
  const double share = static_cast<double>(first) / static_cast<double>(train.size());
  ASSERT_GT(share, 0.6);  // the structure alone would say about a quarter
  const auto hot = std::ranges::find_if(loaded.plan(), [](const plan::PlanRow& row) {
    return row.tensor == "features" && row.stratum == "replicated";
  });
  ASSERT_NE(hot, loaded.plan().end());
  EXPECT_NEAR(hot->expected->share, share, 0.02);  // the bucket of rows 496 to 511 has both kinds
  loaded.close(run.machine);
}

TEST_P(PlacementOnGpu, ReadsHostRowsOnTheWayThatIsAskedFor) {
  const RunSetup run(0, Compute::cuda);
  const auto expected = test::features_as_floats(*test::random_dataset(kDataset));
  for (const tensor::HostPath path : {tensor::HostPath::automatic, tensor::HostPath::zero_copy,
                                      tensor::HostPath::threads, tensor::HostPath::both}) {
    MachineGraph loaded = take(run, {.gpu_budget_bytes = kPlenty,
                                     .placement = plan::parse_placement("features=25/0/75"),
                                     .host_path = path});
    const tensor::HostPath taken = loaded.features().settings().host_path;
    EXPECT_EQ(taken, path == tensor::HostPath::automatic ? tensor::HostPath::zero_copy : path);
    std::vector<NodeId> ids(2000);
    std::iota(ids.begin(), ids.end(), 0);
    const Device device = run.machine.device();
    const cuda::Stream stream(device);
    const cuda::Array<NodeId> ids_there(cuda::Memory::device, std::ssize(ids), "ids", device);
    const cuda::Array<float> out(cuda::Memory::device, std::ssize(expected), "rows", device);
    cuda::copy_async(ids_there.data(), ids.data(), ids.size() * sizeof(NodeId), stream);
    cuda::fill_async(out.data(), 0xFB, expected.size() * sizeof(float), stream);
    ThreadPool pool(1);
    loaded.features().gather({.data = ids_there.data(), .size = std::ssize(ids)}, out.data(), stream, pool);
    EXPECT_EQ(from_device(out.data(), out.size(), device).size(), expected.size());
    stream.synchronize();
    EXPECT_EQ(from_device(out.data(), out.size(), device), expected);
    loaded.close(run.machine);
  }
}

INSTANTIATE_TEST_SUITE_P(Plenty, PlacementOnGpu, testing::Values(0));

}  // namespace
}  // namespace strata::store
