// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

/// The default stream of a device that is not current, as libtorch hands it out.
namespace strata::cuda {
namespace {

constexpr Device kSecond{.kind = Device::Kind::cuda, .index = 1};
constexpr int kLate = 7;

__global__ void write_late(int* value, long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  *value = kLate;
}

void write_late(int* value, const Stream& stream) {
  constexpr long long kCycles = 200'000'000;  // a tenth of a second
  const DeviceGuard guard(kSecond);
  write_late<<<1, 1, 0, stream.get()>>>(value, kCycles);
  check_launch("write_late");
}

class DefaultStream : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count() < 2) GTEST_SKIP() << "needs two GPUs";
    values_ = Array<int>(Memory::device, 1, "values", kSecond);
    read_ = Array<int>(Memory::pinned, 1, "read", kSecond);
    read_.span()[0] = -1;
    stream_ = Stream(kSecond);
    fill_async(values_.data(), 0, sizeof(int), stream_);
    stream_.synchronize();
  }

  /// What `writes` is late to write, `reads` reads.
  void expect_order(const Stream& writes, const Stream& reads) {
    write_late(values_.data(), writes);
    Event written(kSecond);
    written.record(writes);
    reads.wait(written);
    copy_async(read_.data(), values_.data(), sizeof(int), reads);
    reads.synchronize();
    EXPECT_EQ(read_.span()[0], kLate);
  }

  Array<int> values_, read_;
  Stream stream_;  // which takes no notice of the default one
  const Stream default_ = Stream::borrow(kSecond, nullptr);
};

TEST_F(DefaultStream, IsRecordedOnItsDevice) { expect_order(default_, stream_); }

TEST_F(DefaultStream, WaitsAndCopiesOnItsDevice) { expect_order(stream_, default_); }

}  // namespace
}  // namespace strata::cuda
