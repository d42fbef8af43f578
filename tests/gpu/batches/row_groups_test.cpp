// SPDX-License-Identifier: Apache-2.0
#include "learned/row_groups.hpp"

#include <gtest/gtest.h>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "support/row_lists.hpp"

namespace strata::batches {
namespace {

const Device kGpu{Device::Kind::cuda, 0};

template <typename T>
cuda::Array<T> on_gpu(const std::vector<T>& values, const cuda::Stream& stream) {
  cuda::Array<T> array(cuda::Memory::device, std::max<Count>(1, std::ssize(values)), "test", kGpu);
  cuda::copy_async(array.data(), values.data(), values.size() * sizeof(T), stream);
  return array;
}

template <typename T>
std::vector<T> on_host(const T* data, Count count, const cuda::Stream& stream) {
  std::vector<T> values(at(count));
  cuda::copy_async(values.data(), data, values.size() * sizeof(T), stream);
  stream.synchronize();
  return values;
}

class RowGroupsOnGpu : public testing::TestWithParam<Count> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
    stream_ = cuda::Stream(kGpu);
    gpu_ = make_row_grouper(kGpu, pool_);
  }

  ThreadPool pool_{2};
  cuda::Stream stream_, no_stream_;
  std::unique_ptr<RowGrouper> gpu_, cpu_ = make_row_grouper({}, pool_);
};

struct Table {
  std::vector<float> weights;
  std::array<std::vector<float>, 2> state;
};

TEST_P(RowGroupsOnGpu, UpdateAsTheCpuDoes) {
  const Count cols = GetParam(), rows = 500;
  for (const Count hot : {0, 45, 70000}) {
    const test::RowList list = test::row_list({.rows = rows, .count = 700, .hot = hot, .cols = cols});
    const cuda::Array<NodeId> ids = on_gpu(list.rows, stream_);
    const cuda::Array<float> gradients = on_gpu(list.gradients, stream_);
    for (const RowOptimizer optimizer :
         {RowOptimizer::sgd, RowOptimizer::rowwise_adagrad, RowOptimizer::adagrad, RowOptimizer::adam}) {
      SCOPED_TRACE(testing::Message()
                   << cols << " columns, " << hot << " equal rows, " << enum_name(optimizer));
      Table table{std::vector<float>(at(rows * cols), 0.5F),
                  {std::vector<float>(at(rows * cols), 0.25F), std::vector<float>(at(rows * cols), 0.125F)}};
      const cuda::Array<float> weights = on_gpu(table.weights, stream_),
                               first = on_gpu(table.state[0], stream_),
                               second = on_gpu(table.state[1], stream_);
      const RowStep step = RowStep::of({.rate = 0.1, .scale = 0.5}, optimizer, 3);
      const auto run = [&](RowGrouper& grouper, const NodeId* of, const float* from, const OwnRows& own,
                           const cuda::Stream& stream) {
        const RowGroups groups = grouper.group(of, list.count(), rows, stream);
        grouper.update(grouper.sum(groups, from, cols, stream), own, optimizer, step, stream);
      };
      run(*gpu_, ids.data(), gradients.data(),
          {.cols = cols, .weights = weights.data(), .state = {first.data(), second.data()}}, stream_);
      run(*cpu_, list.rows.data(), list.gradients.data(),
          {.cols = cols,
           .weights = table.weights.data(),
           .state = {table.state[0].data(), table.state[1].data()}},
          no_stream_);
      if (optimizer == RowOptimizer::rowwise_adagrad) {  // adds squares in another order
        const auto on_gpu = on_host(weights.data(), rows * cols, stream_);
        for (Count i = 0; i < rows * cols; ++i) ASSERT_NEAR(on_gpu[at(i)], table.weights[at(i)], 1e-6);
        continue;
      }
      EXPECT_EQ(on_host(weights.data(), rows * cols, stream_), table.weights);
      EXPECT_EQ(on_host(first.data(), rows * cols, stream_), table.state[0]);
      EXPECT_EQ(on_host(second.data(), rows * cols, stream_), table.state[1]);
    }
  }
}

TEST_P(RowGroupsOnGpu, ListAsTheCpuDoes) {
  const Count cols = GetParam(), rows = 300, row_bytes = cols * static_cast<Count>(sizeof(float));
  for (const Count count : {0, 1, 400}) {
    const test::RowList list = test::row_list({.rows = rows, .count = count, .hot = count / 4, .cols = cols});
    const cuda::Array<NodeId> ids = on_gpu(list.rows, stream_);
    const cuda::Array<float> gradients = on_gpu(list.gradients, stream_);
    const std::vector<NodeId> bounds{0, 100, 100, rows};
    const auto expect_equal = [&](const ListedRows& here, const ListedRows& wanted) {
      ASSERT_EQ(here.offsets, wanted.offsets);
      EXPECT_EQ(on_host(here.rows, here.count(), stream_), on_host(wanted.rows, here.count(), no_stream_));
      EXPECT_EQ(on_host(here.values, here.count() * row_bytes, stream_),
                on_host(wanted.values, here.count() * row_bytes, no_stream_));
    };
    const RowGroups there = gpu_->group(ids.data(), list.count(), rows, stream_),
                    here = cpu_->group(list.rows.data(), list.count(), rows, no_stream_);
    expect_equal(
        gpu_->list_sums(gpu_->sum(there, gradients.data(), cols, stream_), bounds, stream_),
        cpu_->list_sums(cpu_->sum(here, list.gradients.data(), cols, no_stream_), bounds, no_stream_));
    expect_equal(gpu_->list_last(there, reinterpret_cast<const std::byte*>(gradients.data()), row_bytes,
                                 bounds, stream_),
                 cpu_->list_last(here, reinterpret_cast<const std::byte*>(list.gradients.data()), row_bytes,
                                 bounds, no_stream_));
  }
}

INSTANTIATE_TEST_SUITE_P(Columns, RowGroupsOnGpu, testing::Values(1, 3, 4, 33, 128, 132));

}  // namespace
}  // namespace strata::batches
