// SPDX-License-Identifier: Apache-2.0
#include "strata/comm/device_exchange.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "support/mpi_world.hpp"

namespace strata::comm {
namespace {

enum class Wire { mpi_on_cpu, mpi_on_gpu, nccl };

class DeviceExchanges : public testing::TestWithParam<Wire> {
 protected:
  void SetUp() override {
    const Communicator& world = test::world().communicator();
    if (GetParam() == Wire::mpi_on_gpu && cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    if (GetParam() == Wire::nccl && (world.size() < 2 || cuda::device_count() < world.size()))
      GTEST_SKIP() << "needs two ranks and a GPU for each";
    if (GetParam() != Wire::mpi_on_cpu)
      device_ = {.kind = Device::Kind::cuda, .index = rank() % cuda::device_count()};
    if (device_.is_cuda()) stream_ = cuda::Stream(device_);
    wire_ =
        GetParam() == Wire::nccl ? make_device_exchange(world, device_) : make_mpi_exchange(world, device_);
  }
  void TearDown() override {
    if (wire_) wire_->close();
  }

  static int rank() { return test::world().rank(); }
  static int size() { return test::world().size(); }

  /// An array on the device.
  cuda::Array<Count> on_device(const std::vector<Count>& values) const {
    cuda::Array<Count> array(cuda::memory_on(device_), std::ssize(values) + 1, "test", device_);
    cuda::copy_async(array.data(), values.data(), values.size() * sizeof(Count), stream_);
    stream_.synchronize();
    return array;
  }
  std::vector<Count> on_host(const cuda::Array<Count>& array, Count count) const {
    std::vector<Count> values(at(count));
    cuda::copy_async(values.data(), array.data(), values.size() * sizeof(Count), stream_);
    stream_.synchronize();
    return values;
  }

  Device device_;
  cuda::Stream stream_;
  std::unique_ptr<DeviceExchange> wire_;
};
INSTANTIATE_TEST_SUITE_P(Wires, DeviceExchanges,
                         testing::Values(Wire::mpi_on_cpu, Wire::mpi_on_gpu, Wire::nccl),
                         [](const auto& info) {
                           return info.param == Wire::nccl         ? "nccl"
                                  : info.param == Wire::mpi_on_gpu ? "mpi_on_gpu"
                                                                   : "mpi_on_cpu";
                         });

/// What rank `from` sends to rank `to` in message m of a round.
Count value_of(int from, int to, int m, int round) { return 1000 * from + 100 * to + 10 * m + round; }

// Two messages per pair, of different sizes; the last rank gets none of the second kind.
TEST_P(DeviceExchanges, BringMessagesInOrder) {
  constexpr Count kSizes[] = {3, 5000};
  for (int round = 0; round < 3; ++round) {
    std::vector<cuda::Array<Count>> out, in;
    std::vector<DeviceExchange::Outgoing> sends;
    std::vector<DeviceExchange::Incoming> receives;
    for (int m = 0; m < 2; ++m) {
      for (int other = 0; other < size(); ++other) {
        const auto bytes_to = [&](int to) {
          return m == 1 && to == size() - 1 ? 0 : kSizes[m] * static_cast<Count>(sizeof(Count));
        };
        out.push_back(on_device(std::vector<Count>(at(kSizes[m]), value_of(rank(), other, m, round))));
        in.push_back(on_device(std::vector<Count>(at(kSizes[m]), -1)));
        sends.push_back({other, out.back().data(), bytes_to(other)});
        receives.push_back({other, in.back().data(), bytes_to(rank())});
      }
    }
    wire_->exchange(sends, receives, stream_);
    for (int m = 0; m < 2; ++m) {
      for (int other = 0; other < size(); ++other) {
        const Count wanted = m == 1 && rank() == size() - 1 ? -1 : value_of(other, rank(), m, round);
        EXPECT_EQ(on_host(in[at(m * size() + other)], kSizes[m]), std::vector<Count>(at(kSizes[m]), wanted))
            << "message " << m << " of rank " << other;
      }
    }
  }
}

TEST_P(DeviceExchanges, BringMessagesInOneDirectionOnly) {
  auto value = on_device({rank() == 0 ? 7 : -1});
  std::vector<DeviceExchange::Outgoing> sends;
  std::vector<DeviceExchange::Incoming> receives;
  if (rank() == 0) {
    for (int other = 1; other < size(); ++other) sends.push_back({other, value.data(), sizeof(Count)});
  } else {
    receives.push_back({0, value.data(), sizeof(Count)});
  }
  wire_->exchange(sends, receives, stream_);
  EXPECT_EQ(on_host(value, 1), std::vector<Count>{7});
}

TEST_P(DeviceExchanges, FindTheLargest) {
  auto values = on_device({rank(), -rank(), 5});
  wire_->max(values.data(), 3, stream_);
  EXPECT_EQ(on_host(values, 3), (std::vector<Count>{size() - 1, 0, 5}));
}

// Rank r sends r + to + 1 numbers to rank `to`.
TEST_P(DeviceExchanges, ExchangeUnequalShares) {
  std::vector<Count> out, send_bytes, recv_bytes, wanted;
  for (int other = 0; other < size(); ++other) {
    const Count count = rank() + other + 1;
    send_bytes.push_back(count * static_cast<Count>(sizeof(Count)));
    recv_bytes.push_back(send_bytes.back());
    out.insert(out.end(), at(count), value_of(rank(), other, 0, 0));
    wanted.insert(wanted.end(), at(count), value_of(other, rank(), 0, 0));
  }
  const auto from = on_device(out);
  auto to = on_device(std::vector<Count>(wanted.size(), -1));
  wire_->all_to_all(from.data(), send_bytes, to.data(), recv_bytes, stream_);
  EXPECT_EQ(on_host(to, std::ssize(wanted)), wanted);
}

}  // namespace
}  // namespace strata::comm
