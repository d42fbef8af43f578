// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "strata/comm/device_exchange.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "support/mpi_world.hpp"
#include "support/topologies.hpp"

namespace strata::comm {
namespace {

constexpr Count kNodes = 1000;  // of a machine

int rank() { return test::world().rank(); }
int size() { return test::world().size(); }

std::vector<int> a_machine_a_rank() {
  std::vector<int> machines(at(size()));
  std::iota(machines.begin(), machines.end(), 0);
  return machines;
}

/// What rank `server` knows of a node.
Count fact_of(NodeId node, int server) { return 3 * node + server; }

/// Ranks that ask each other for facts. An owner of their wire.
template <typename Id>
class Asking {
 public:
  Asking(const std::vector<int>& machines, Device device, NodeId lowest)
      : device_(device),
        stream_(device),
        topology_(test::topology_of(machines)),
        offsets_(offsets_from(lowest, topology_.num_machines())),
        wire_(make_mpi_exchange(test::world().communicator(), device)),
        segments_(SegmentPeers::of(topology_, offsets_, rank()), *wire_, device) {}
  void close() { wire_->close(); }

  int num_machines() const { return topology_.num_machines(); }
  int machine() const { return topology_.ranks[at(rank())].machine; }
  NodeId node(int machine, Count i) const { return offsets_[at(machine)] + i; }

  struct Outcome {
    bool fits = false;         ///< what all ranks asked for
    Count remote = 0;          ///< ids of other machines
    std::vector<Count> facts;  ///< by id; -1: none came
  };
  /// Collective.
  Outcome ask(const std::vector<NodeId>& ids, Count cap) {
    const auto there = on_device(ids);
    const auto tally = on_device(std::vector<Count>{0, 0});
    Count* const overflow = tally.data() + 1;
    segments_.pack({.ids = there.data(), .bound = std::ssize(ids)}, cap,
                   {.remote = tally.data(), .overflow = overflow}, stream_);
    segments_.request(stream_);
    std::vector<Count> known;
    for (const Id node : on_host(segments_.served(), segments_.num_served()))
      known.push_back(node < 0 ? -1 : fact_of(node, rank()));
    const auto from = on_device(known);
    const auto to = on_device(std::vector<Count>(at(segments_.num_asked())));
    const typename IdSegments<Id>::Answer answer{from.data(), to.data(), cap * Count{sizeof(Count)}};
    segments_.answer({&answer, 1}, stream_);
    wire_->max(overflow, 1, stream_);
    const auto numbers = on_host(tally.data(), 2);
    Outcome outcome{
        .fits = numbers[1] == 0, .remote = numbers[0], .facts = std::vector<Count>(ids.size(), -1)};
    const auto positions = on_host(segments_.positions(), segments_.num_asked());
    const auto facts = on_host(to.data(), segments_.num_asked());
    for (std::size_t i = 0; i < positions.size(); ++i)
      if (positions[i] >= 0) outcome.facts[at(positions[i])] = facts[i];
    return outcome;
  }

  std::vector<Count> expected_facts(const std::vector<NodeId>& ids) const {
    std::vector<Count> facts;
    for (const NodeId id : ids) {
      const int owner = id < 0 ? machine() : static_cast<int>((id - offsets_.front()) / kNodes);
      facts.push_back(owner == machine() ? -1 : fact_of(id, topology_.rail(rank(), owner)));
    }
    return facts;
  }

 private:
  static std::vector<NodeId> offsets_from(NodeId lowest, int machines) {
    std::vector<NodeId> offsets;
    for (int m = 0; m <= machines; ++m) offsets.push_back(lowest + m * kNodes);
    return offsets;
  }

  template <typename T>
  cuda::Array<T> on_device(const std::vector<T>& values) const {
    cuda::Array<T> array(cuda::memory_on(device_), std::ssize(values) + 1, "test", device_);
    cuda::copy_async(array.data(), values.data(), values.size() * sizeof(T), stream_);
    stream_.synchronize();
    return array;
  }
  template <typename T>
  std::vector<T> on_host(const T* array, Count count) const {
    std::vector<T> values(at(count));
    cuda::copy_async(values.data(), array, values.size() * sizeof(T), stream_);
    stream_.synchronize();
    return values;
  }

  Device device_;
  cuda::Stream stream_;
  Topology topology_;
  std::vector<NodeId> offsets_;
  std::unique_ptr<DeviceExchange> wire_;
  IdSegments<Id> segments_;
};

/// Ranks on CPUs, or on one GPU that they share.
class Segments : public testing::TestWithParam<Device::Kind> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
  static Device device() { return {.kind = GetParam(), .index = 0}; }
};
INSTANTIATE_TEST_SUITE_P(Devices, Segments, testing::Values(Device::Kind::cpu, Device::Kind::cuda),
                         [](const auto& info) { return info.param == Device::Kind::cpu ? "cpu" : "cuda"; });

template <typename Id>
void expect_answers(const std::vector<int>& machines, Device device, NodeId lowest) {
  SCOPED_TRACE(testing::Message() << "ids from " << lowest << ", " << sizeof(Id) << " bytes each");
  Asking<Id> asking(machines, device, lowest);
  std::mt19937_64 random(static_cast<std::uint64_t>(rank()));
  for (const std::uint64_t count : {300, 0, 50}) {
    std::vector<NodeId> ids{-1};
    for (std::uint64_t i = 0; i < count; ++i)
      ids.push_back(asking.node(
          0, static_cast<Count>(random() % static_cast<std::uint64_t>(asking.num_machines() * kNodes))));
    const auto outcome = asking.ask(ids, rounded_cap(300));
    const std::vector<Count> expected = asking.expected_facts(ids);
    EXPECT_TRUE(outcome.fits);
    EXPECT_EQ(outcome.facts, expected);
    EXPECT_EQ(outcome.remote, std::ranges::count_if(expected, [](Count fact) { return fact >= 0; }));
  }
  asking.close();
}

TEST_P(Segments, BringAnswersToWhereTheyAreAwaited) {
  for (const auto& machines : {a_machine_a_rank(), test::uneven_machines(size())}) {
    expect_answers<std::int32_t>(machines, device(), 0);
    expect_answers<std::int64_t>(machines, device(), (NodeId{1} << 31) - 500);  // some lie below
    expect_answers<std::int64_t>(machines, device(), (NodeId{1} << 32) - 500);
  }
}

// One rank asks for more than a message holds. All of them repeat what they asked for, equally often, until
// there is room for all of it.
TEST_P(Segments, MakeRoomOnAllRanksForWhatDoesNotFitOnOne) {
  if (size() == 1) GTEST_SKIP() << "needs two machines";
  for (const auto& machines : {a_machine_a_rank(), test::uneven_machines(size())}) {
    for (int greedy = 0; greedy < size(); ++greedy) {
      SCOPED_TRACE(testing::Message() << "rank " << greedy << " asks for most");
      Asking<std::int32_t> asking(machines, device(), 0);
      const int other = (asking.machine() + 1) % asking.num_machines();
      std::vector<NodeId> ids;
      for (Count i = 0; i < (rank() == greedy ? 200 : 3); ++i) ids.push_back(asking.node(other, 2 * i));
      Count cap = 8;
      std::vector<Count> caps{cap};
      auto outcome = asking.ask(ids, cap);
      while (!outcome.fits) {
        cap = grown_cap(cap);
        caps.push_back(cap);
        outcome = asking.ask(ids, cap);
      }
      EXPECT_EQ(caps, (std::vector<Count>{8, 72, 144, 224}));
      EXPECT_EQ(outcome.facts, asking.expected_facts(ids));
      asking.close();
    }
  }
}

// Of too many ids, those for which there is room are answered.
TEST_P(Segments, LeaveOutWhatDoesNotFit) {
  if (size() == 1) GTEST_SKIP() << "needs two machines";
  Asking<std::int32_t> asking(a_machine_a_rank(), device(), 0);
  const int other = (asking.machine() + 1) % asking.num_machines();
  std::vector<NodeId> ids;
  for (Count i = 0; i < 20; ++i) ids.push_back(asking.node(other, i));
  const auto outcome = asking.ask(ids, 16);
  EXPECT_FALSE(outcome.fits);
  EXPECT_EQ(outcome.remote, 20);
  const std::vector<Count> expected = asking.expected_facts(ids);
  Count answered = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (outcome.facts[i] < 0) continue;
    ++answered;
    EXPECT_EQ(outcome.facts[i], expected[i]);
  }
  EXPECT_EQ(answered, 16);
  asking.close();
}

}  // namespace
}  // namespace strata::comm
