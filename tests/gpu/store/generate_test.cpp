// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <tuple>
#include <vector>

#include "strata/batches/placed_graph.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#include "support/generate_cases.hpp"
#include "support/run_setup.hpp"

namespace strata::store {
namespace {

using Compute = comm::TopologyOptions::Compute;

class GenerateOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    run_.emplace(0, Compute::cuda);
  }
  const comm::Machine& machine() const { return run_->machine; }

  MachineGraph generate(const std::string& settings, const graph::ReadOptions& read,
                        const LoadOptions& load) const {
    ThreadPool pool(2);
    return batches::generate_graph(graph::parse_synthetic(settings), read, machine(), load, pool);
  }

 private:
  std::optional<test::RunSetup> run_;
};

/// A kind of graph, and which quarter of its cases: every graph measures how fast its rows are read, which
/// takes long.
class GenerateKindOnGpu : public GenerateOnGpu,
                          public testing::WithParamInterface<std::tuple<const char*, std::size_t>> {};
constexpr std::size_t kQuarters = 4;

TEST_P(GenerateKindOnGpu, GivesTheGeneratorsGraph) {
  const auto& [kind, quarter] = GetParam();
  const std::vector<test::GenerateCase> cases = test::generate_cases(kind);
  ASSERT_GE(cases.size(), kQuarters);
  for (std::size_t i = quarter; i < cases.size(); i += kQuarters) test::expect_generates(machine(), cases[i]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, GenerateKindOnGpu,
                         testing::Combine(testing::Values("sbm", "rmat", "lognormal", "grid"),
                                          testing::Range(std::size_t{0}, kQuarters)));

// 24 M entries and 77 MB of features: several pieces of both, of which a rank makes its share; the rows lie
// in host memory and on the GPUs.
TEST_F(GenerateOnGpu, WorksPieceByPiece) {
  test::expect_generates(machine(), {"kind=lognormal,nodes=300000,degree=80,sigma=2,features=64",
                                     {},
                                     {.in_degrees = true, .gpu_budget_bytes = 150'000'000}});
}

TEST_F(GenerateOnGpu, LeavesFeaturesInHostMemoryWithoutABudget) {
  MachineGraph made = generate("kind=lognormal,nodes=3000,features=5", {}, {});
  EXPECT_NE(made.features().host_data(), nullptr);
  made.close(machine());
}

TEST_F(GenerateOnGpu, RefusesADirectionThatTheKindCannotHave) {
  using Direction = graph::ReadOptions::Direction;
  EXPECT_THROW(generate("kind=lognormal", {.direction = Direction::undirected}, {}), InputError);
  EXPECT_THROW(generate("kind=grid", {.direction = Direction::directed}, {}), InputError);
}

TEST_F(GenerateOnGpu, RefusesEdgeIdsThatThereAreNot) {
  EXPECT_THROW(generate("kind=lognormal,nodes=100", {}, {.edge_ids = true}), InputError);
}

TEST_F(GenerateOnGpu, RefusesWhatDoesNotFitBeforeItBegins) {
  try {
    generate("kind=lognormal,nodes=1000000000000,edges=0", {}, {});
    FAIL() << "accepted";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("1,000,000,000,000 nodes: wanted"));
  }
}

}  // namespace
}  // namespace strata::store
