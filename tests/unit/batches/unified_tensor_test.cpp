// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "strata/batches/graph.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::batches {
namespace {

constexpr Count kRows = 700;

struct RowCase {
  std::size_t row_bytes, element_bytes;
};

/// On the cpu, and on a GPU where there is one.
class Unified : public testing::TestWithParam<std::tuple<Device::Kind, RowCase>> {
 protected:
  void SetUp() override {
    if (device_.is_cuda() && cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    stream_ = cuda::Stream(device_);
    std::mt19937 random(3);
    for (std::byte& value : memory_) value = static_cast<std::byte>(random());
  }
  UnifiedTensor make(const tensor::GatherSettings& settings = {}) {
    return {device_,
            {.data = memory_.data(),
             .rows = kRows,
             .row_bytes = rows_.row_bytes,
             .element_bytes = rows_.element_bytes,
             .keep_alive = {}},
            settings};
  }
  std::vector<std::byte> expected(const std::vector<std::int64_t>& ids) const {
    std::vector<std::byte> bytes;
    for (const std::int64_t id : ids)
      bytes.insert(bytes.end(), row(id), row(id) + static_cast<std::ptrdiff_t>(rows_.row_bytes));
    return bytes;
  }
  std::vector<std::byte>::const_iterator row(std::int64_t id) const {
    return memory_.begin() + static_cast<std::ptrdiff_t>(at(id) * rows_.row_bytes);
  }
  cuda::Array<std::byte> on_device(const void* data, std::size_t bytes) const {
    cuda::Array<std::byte> copy(cuda::memory_on(device_), static_cast<Count>(bytes), "test", device_);
    cuda::copy_async(copy.data(), data, bytes, stream_);
    return copy;
  }
  std::vector<std::byte> on_host(const cuda::Array<std::byte>& data) const {
    std::vector<std::byte> copy(at(data.size()));
    cuda::copy_async(copy.data(), data.data(), copy.size(), stream_);
    stream_.synchronize();
    return copy;
  }

  Device device_{std::get<0>(GetParam())};
  RowCase rows_ = std::get<1>(GetParam());
  cuda::Stream stream_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kRows * rows_.row_bytes);
  const std::vector<std::int64_t> ids_{699, 0, 5, 5, 123, 1};
};

TEST_P(Unified, GathersRowsByIds) {
  UnifiedTensor tensor = make();
  const std::vector<std::int32_t> narrow(ids_.begin(), ids_.end());
  for (const bool wide : {true, false}) {
    const void* const given = wide ? static_cast<const void*>(ids_.data()) : narrow.data();
    const auto copied = on_device(given, ids_.size() * (wide ? 8 : 4));
    cuda::Array<std::byte> out(cuda::memory_on(device_),
                               std::ssize(ids_) * static_cast<Count>(rows_.row_bytes), "test", device_);
    cuda::fill_async(out.data(), 0x5A, at(out.size()), stream_);
    tensor.gather({.data = copied.data(), .count = std::ssize(ids_), .wide = wide}, out.data(), stream_);
    EXPECT_EQ(on_host(out), expected(ids_)) << "wide " << wide;
  }
}

TEST_P(Unified, GathersTheSameRowsOnEveryPath) {
  using tensor::HostPath;
  for (const HostPath path : {HostPath::zero_copy, HostPath::threads, HostPath::both}) {
    UnifiedTensor tensor = make({.host_path = path, .threads = 2});
    cuda::Array<std::byte> out(cuda::memory_on(device_),
                               std::ssize(ids_) * static_cast<Count>(rows_.row_bytes), "test", device_);
    cuda::fill_async(out.data(), 0x5A, at(out.size()), stream_);
    const auto ids = on_device(ids_.data(), 8 * ids_.size());
    tensor.gather({.data = ids.data(), .count = std::ssize(ids_)}, out.data(), stream_);
    EXPECT_EQ(on_host(out), expected(ids_)) << enum_name(path);
  }
  EXPECT_THROW(make({.threads = -1}), InputError);
}

TEST_P(Unified, WritesRowsWhereTheyLie) {
  UnifiedTensor tensor = make();
  const std::vector<std::int64_t> to{3, 698, 40};
  const std::vector<std::byte> rows = expected({10, 11, 12});
  const auto given = on_device(rows.data(), rows.size());
  const auto ids = on_device(to.data(), 24);
  tensor.scatter({.data = ids.data(), .count = 3}, given.data(), stream_);
  tensor.fence(stream_);
  EXPECT_EQ(expected(to), rows);
}

TEST_P(Unified, NamesTheFirstIndexThatIsNoRow) {
  UnifiedTensor tensor = make();
  cuda::Array<std::byte> out(cuda::memory_on(device_), 2 * static_cast<Count>(rows_.row_bytes), "test",
                             device_);
  for (const std::int64_t wrong : {std::int64_t{-1}, kRows}) {
    const std::vector<std::int64_t> ids{4, wrong};
    const auto copied = on_device(ids.data(), 16);
    for (int time = 0; time < 2; ++time) {  // the second one in kept memory
      try {
        tensor.gather({.data = copied.data(), .count = 2}, out.data(), stream_);
        FAIL() << wrong << " was taken";
      } catch (const std::out_of_range& error) {
        EXPECT_EQ(std::string(error.what()),
                  "index 1 is " + std::to_string(wrong) + ", which is no row of 700");
      }
    }
  }
}

TEST_P(Unified, TakesNoIndices) {
  UnifiedTensor tensor = make();
  tensor.gather({}, nullptr, stream_);
  tensor.scatter({}, nullptr, stream_);
}

INSTANTIATE_TEST_SUITE_P(Rows, Unified,
                         testing::Combine(testing::Values(Device::Kind::cpu, Device::Kind::cuda),
                                          testing::Values(RowCase{1, 1}, RowCase{7, 1}, RowCase{6, 2},
                                                          RowCase{4, 4}, RowCase{400, 4}, RowCase{8, 8},
                                                          RowCase{4096, 8})));

TEST(UnifiedTensor, HoldsTheMemory) {
  auto memory = std::make_shared<std::vector<std::int64_t>>(std::vector<std::int64_t>{7, 8, 9});
  std::optional<UnifiedTensor> tensor;
  tensor.emplace(Device{}, HostRows{memory->data(), 3, 8, 8, memory});
  EXPECT_EQ(memory.use_count(), 2);
  tensor.reset();
  EXPECT_EQ(memory.use_count(), 1);
}

TEST(UnifiedTensor, RefusesElementsWithoutAType) {
  std::vector<std::byte> memory(30);
  test::expect_error<InputError>(
      [&] {
        UnifiedTensor(Device{}, {memory.data(), 10, 3, 3, {}});
      },
      {"elements of 3 bytes"});
}

}  // namespace
}  // namespace strata::batches
