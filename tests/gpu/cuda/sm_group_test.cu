// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"

namespace strata::cuda {
namespace {

constexpr Device kGpu{.kind = Device::Kind::cuda, .index = 0};
constexpr int kBlocks = 4096, kThreads = 256;

__device__ int current_sm() {
  unsigned sm = 0;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return static_cast<int>(sm);
}

/// Each block stays for a while, so that every SM that may run one does.
__global__ void note_sms(int* sms, long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  if (threadIdx.x == 0) sms[blockIdx.x] = current_sm();
}

void enqueue_notes(int* sms, const Stream& stream) {
  constexpr long long kCycles = 20'000;
  note_sms<<<kBlocks, kThreads, 0, stream.get()>>>(sms, kCycles);
  check_launch("note_sms");
}

class SmGroups : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "needs a GPU";
    notes_ = Array<int>(Memory::pinned, kBlocks, "notes", kGpu);
  }

  /// The SMs that ran what `enqueue` enqueued.
  template <typename Enqueue>
  std::set<int> sms_of(const Stream& stream, Enqueue&& enqueue) {
    std::ranges::fill(notes_.span(), -1);
    enqueue();
    stream.synchronize();
    return {notes_.span().begin(), notes_.span().end()};
  }
  std::set<int> sms_of(const Stream& stream) {
    return sms_of(stream, [&] { enqueue_notes(notes_.data(), stream); });
  }

  static std::vector<int> common(const std::set<int>& a, const std::set<int>& b) {
    std::vector<int> both;
    std::ranges::set_intersection(a, b, std::back_inserter(both));
    return both;
  }

  Array<int> notes_;
};

TEST_F(SmGroups, RunKernelsOfTheirStreamsAlone) {
  const int all = num_multiprocessors(kGpu.index);
  for (const SmShares shares :
       {SmShares{10, 90}, SmShares{25, 75}, SmShares{50, 50}, SmShares{90, 10}, SmShares{20, 40}}) {
    SCOPED_TRACE(testing::Message() << shares.first << "," << shares.second);
    const SmSplit split = split_sms(kGpu, shares);
    const Stream first(kGpu, 0, split.first), second(kGpu, -64, split.second);
    const std::set<int> of_first = sms_of(first), of_second = sms_of(second);
    EXPECT_EQ(std::ssize(of_first), split.first.num_sms());
    EXPECT_EQ(std::ssize(of_second), split.second.num_sms());
    EXPECT_EQ(common(of_first, of_second), std::vector<int>());
    EXPECT_GE(*of_first.begin(), 0);
    EXPECT_LE(split.first.num_sms() + split.second.num_sms(), all);
    if (shares.first + shares.second == 100) EXPECT_EQ(split.first.num_sms() + split.second.num_sms(), all);
    EXPECT_NEAR(split.first.num_sms(), all * shares.first / 100.0, 8);
  }
}

TEST_F(SmGroups, OverlapWhereTheSumExceedsAll) {
  const int all = num_multiprocessors(kGpu.index);
  const SmSplit split = split_sms(kGpu, {60, 70});
  const Stream first(kGpu, 0, split.first), second(kGpu, 0, split.second);
  const std::set<int> of_first = sms_of(first), of_second = sms_of(second);
  EXPECT_EQ(std::ssize(common(of_first, of_second)), split.first.num_sms() + split.second.num_sms() - all);
  const SmSplit one = split_sms(kGpu, {20, 100});
  EXPECT_TRUE(one.second.is_all());
  EXPECT_FALSE(one.first.is_all());
  EXPECT_EQ(std::ssize(sms_of(Stream(kGpu, 0, one.second))), all);
}

// Where a graph runs is said where it is recorded.
TEST_F(SmGroups, KeepRecordedGraphs) {
  const SmSplit split = split_sms(kGpu, {20, 80});
  const Stream first(kGpu, 0, split.first), whole(kGpu);
  Stream side(kGpu);
  ASSERT_TRUE(side.follow(first));
  ASSERT_FALSE(side.follow(first));
  Event forked(kGpu), joined(kGpu);
  Array<int> more(Memory::pinned, kBlocks, "notes", kGpu);
  const Graph graph = Graph::record(first, [&] {
    forked.record(first);
    side.wait(forked);
    enqueue_notes(notes_.data(), first);
    enqueue_notes(more.data(), side);
    joined.record(side);
    first.wait(joined);
  });
  const std::set<int> expected = sms_of(first);
  for (const Stream* stream : {&first, &whole}) {
    std::ranges::fill(more.span(), -1);
    EXPECT_EQ(sms_of(*stream, [&] { graph.launch(*stream); }), expected);
    EXPECT_EQ(std::set<int>(more.span().begin(), more.span().end()), expected);
  }
}

TEST_F(SmGroups, LaterWorkOfAStreamThatMovedWaitsForEarlier) {
  const SmSplit split = split_sms(kGpu, {20, 80});
  Stream stream(kGpu, 0, split.first);
  Array<int> device(Memory::device, kBlocks, "notes", kGpu);
  fill_async(device.data(), 0xFF, device.span().size_bytes(), stream);
  for (int i = 0; i < 20; ++i) enqueue_notes(device.data(), stream);
  ASSERT_TRUE(stream.follow(Stream(kGpu, 0, split.second)));
  std::ranges::fill(notes_.span(), -2);
  copy_async(notes_.data(), device.data(), device.span().size_bytes(), stream);
  stream.synchronize();
  EXPECT_GE(*std::ranges::min_element(notes_.span()), 0);
  const std::set<int> sms(notes_.span().begin(), notes_.span().end());
  EXPECT_EQ(std::ssize(sms), split.first.num_sms());
}

TEST_F(SmGroups, OutliveTheSplitInTheirStreams) {
  Stream stream;
  int expected = 0;
  {
    const SmSplit split = split_sms(kGpu, {30, 70});
    stream = Stream(kGpu, 0, split.first);
    expected = split.first.num_sms();
  }
  EXPECT_EQ(std::ssize(sms_of(stream)), expected);
}

}  // namespace
}  // namespace strata::cuda
