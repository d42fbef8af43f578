// SPDX-License-Identifier: Apache-2.0
// What every owner of the module promises, on the cpu and on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/util/error.hpp"

namespace strata::cuda {
namespace {

using testing::HasSubstr;

constexpr Count kSize = 100'003;
const Device kGpu{Device::Kind::cuda, 0};

class Owners : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam().is_cuda() && device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }
  Device device() const { return GetParam(); }

  static std::vector<int> random_values(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<int> values(at(kSize));
    for (int& value : values) value = static_cast<int>(random());
    return values;
  }
  std::vector<int> read(const int* data, const Stream& stream) const {
    std::vector<int> values(at(kSize), -1);
    copy_async(values.data(), data, values.size() * sizeof(int), stream);
    stream.synchronize();
    return values;
  }
};

TEST_P(Owners, BuffersOfEveryKindHoldWhatIsCopiedThere) {
  const Stream stream(device());
  const std::vector<int> values = random_values(1);
  for (const Memory memory : {Memory::host, Memory::pinned, memory_on(device())}) {
    const Array<int> array(memory, kSize, "values", device());
    EXPECT_EQ(array.size(), kSize);
    EXPECT_EQ(is_device_memory(array.data()), device().is_cuda() && memory == Memory::device);
    if (memory == memory_on(device())) {
      fill_async(array.data(), 0xFB, values.size() * sizeof(int), stream);
      EXPECT_EQ(read(array.data(), stream), std::vector<int>(values.size(), static_cast<int>(0xFBFBFBFB)));
    }
    copy_async(array.data(), values.data(), values.size() * sizeof(int), stream);
    EXPECT_EQ(read(array.data(), stream), values);
  }
}

TEST_P(Owners, BuffersMove) {
  Array<int> a(memory_on(device()), kSize, "values", device());
  int* const data = a.data();
  Array<int> b = std::move(a);
  EXPECT_EQ(b.data(), data);
  Array<int> c(memory_on(device()), 1, "others", device());
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.size(), kSize);
}

TEST_P(Owners, ArraysGrowByAtLeastAQuarter) {
  Array<int> array;
  const int* const first = array.reserve(memory_on(device()), 100, "values", device());
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(first, array.data());
  EXPECT_EQ(array.size(), 100);
  const int* const before = array.data();
  EXPECT_EQ(array.reserve(memory_on(device()), 99, "values", device()), before);
  EXPECT_EQ(array.size(), 100);
  array.reserve(memory_on(device()), 101, "values", device());
  EXPECT_EQ(array.size(), 125);
  array.reserve(memory_on(device()), 1000, "values", device());
  EXPECT_EQ(array.size(), 1000);
}

TEST_P(Owners, TooLargeBuffersAreRefusedByName) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer ends the program instead of refusing";
#endif
  constexpr Count kHuge = Count{1} << 50;
  try {
    const Array<int> array(memory_on(device()), kHuge, "a table", device());
    FAIL() << "there is no such memory";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("a table"));
    EXPECT_THAT(error.what(), HasSubstr("wanted 4096.0 TiB"));
  }
  const Array<int> array(memory_on(device()), kSize, "values", device());  // the failure left nothing behind
  EXPECT_NE(array.data(), nullptr);
}

TEST_P(Owners, RowsAreCopiedBetweenPitches) {
  const Stream stream(device());
  constexpr std::size_t kRows = 37, kRowBytes = 13, kFrom = 16, kTo = 29;
  std::vector<std::byte> from(kRows * kFrom), to(kRows * kTo, std::byte{0xFB}), expected = to;
  std::mt19937 random(3);
  for (std::byte& value : from) value = static_cast<std::byte>(random());
  for (std::size_t row = 0; row < kRows; ++row)
    std::copy_n(from.data() + row * kFrom, kRowBytes, expected.data() + row * kTo);
  const Buffer there(memory_on(device()), from.size(), "rows", device());
  copy_async(there.data(), from.data(), from.size(), stream);
  copy_rows_async({.to = {to.data(), kTo},
                   .from = {static_cast<std::byte*>(there.data()), kFrom},
                   .row_bytes = kRowBytes,
                   .rows = kRows},
                  stream);
  stream.synchronize();
  EXPECT_EQ(to, expected);
}

TEST_P(Owners, WorkOfOneStreamWaitsForAnEventOfAnother) {
  const Stream first(device()), second(device());
  const std::vector<int> values = random_values(5);
  const Array<int> a(memory_on(device()), kSize, "values", device()),
      b(memory_on(device()), kSize, "values", device());
  Event copied(device());
  copy_async(a.data(), values.data(), values.size() * sizeof(int), first);
  copied.record(first);
  second.wait(copied);
  copy_async(b.data(), a.data(), values.size() * sizeof(int), second);
  EXPECT_EQ(read(b.data(), second), values);
}

TEST_P(Owners, StreamsAndEventsMove) {
  Stream stream(device());
  CUstream_st* const handle = stream.get();
  Stream moved = std::move(stream);
  EXPECT_EQ(moved.get(), handle);
  EXPECT_EQ(moved.device(), device());
  Event event(device());
  event.record(moved);
  Event other = std::move(event);
  other.synchronize();
  EXPECT_FALSE(moved.follow(Stream(device())));  // both have all SMs
}

TEST_P(Owners, BorrowedStreamsAreNotDestroyed) {
  const Stream owner(device());
  { const Stream borrowed = Stream::borrow(device(), owner.get()); }
  const std::vector<int> values = random_values(7);
  const Array<int> array(memory_on(device()), kSize, "values", device());
  copy_async(array.data(), values.data(), values.size() * sizeof(int), owner);
  EXPECT_EQ(read(array.data(), owner), values);
}

TEST_P(Owners, RegisteredMemoryStaysWhatItIs) {
  std::vector<int> values = random_values(9);
  const std::vector<int> expected = values;
  Registration registration(values.data(), values.size() * sizeof(int));
  const Registration moved = std::move(registration);
  const Stream stream(device());
  const Array<int> array(memory_on(device()), kSize, "values", device());
  copy_async(array.data(), values.data(), values.size() * sizeof(int), stream);
  EXPECT_EQ(read(array.data(), stream), expected);
  EXPECT_EQ(values, expected);
}

TEST_P(Owners, ARegistrationEndsWithItsOwner) {
  std::vector<int> values = random_values(9);
  for (int i = 0; i < 3; ++i) const Registration registration(values.data(), values.size() * sizeof(int));
}

TEST_P(Owners, GuardsRestoreTheDevice) {
  const DeviceGuard guard(device());
  { const DeviceGuard same(device()); }
  const NvtxRange range("a test");
  const Array<int> array(memory_on(device()), 1, "value", device());
  EXPECT_NE(array.data(), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Owners, testing::Values(Device{}));
INSTANTIATE_TEST_SUITE_P(Gpu, Owners, testing::Values(kGpu));

class RecordedGraphs : public testing::Test {};

TEST_F(RecordedGraphs, RunWhatWasRecordedEachTimeTheyAreLaunched) {
  if (device_count() == 0) GTEST_SKIP() << "needs a GPU";
  const Device device = kGpu;
  const Stream stream(device);
  const Array<int> from(Memory::device, 4, "values", device), to(Memory::device, 4, "values", device);
  const Graph graph =
      Graph::record(stream, [&] { copy_async(to.data(), from.data(), 4 * sizeof(int), stream); });
  EXPECT_TRUE(static_cast<bool>(graph));
  for (const int byte : {1, 2, 3}) {
    fill_async(from.data(), byte, 4 * sizeof(int), stream);
    graph.launch(stream);
    std::vector<int> got(4);
    copy_async(got.data(), to.data(), 4 * sizeof(int), stream);
    stream.synchronize();
    EXPECT_EQ(got, std::vector<int>(4, byte * 0x01010101));
  }
  EXPECT_THROW(Graph::record(stream, [] { throw InputError("no"); }), InputError);
  fill_async(to.data(), 0, 4 * sizeof(int), stream);  // the stream records no longer
  stream.synchronize();
}

}  // namespace
}  // namespace strata::cuda
