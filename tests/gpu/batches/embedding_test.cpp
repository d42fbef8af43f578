// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/embedding.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/tensor/chunk_tensor.hpp"
#include "support/mpi_world.hpp"
#include "support/row_lists.hpp"

namespace strata::batches {
namespace {

using Compute = comm::TopologyOptions::Compute;

constexpr Count kRows = 700;

/// A table on one kind of device, and arrays from and to it.
class Table {
 public:
  Table(Compute compute, int ranks_per_machine, EmbeddingOptions options)
      : runtime_(std::make_shared<Runtime>(
            test::world(),
            comm::TopologyOptions{.ranks_per_machine = ranks_per_machine, .compute = compute})),
        stream_(runtime_->device().is_cuda() ? cuda::Stream(runtime_->device()) : cuda::Stream()),
        embedding_(runtime_, options) {
    embedding_.initialize(3, 0.5);
  }
  ~Table() {
    embedding_.close();
    runtime_->close();
  }

  /// A gather, an update and a write.
  void step(const test::RowList& list, Count cols) {
    const auto ids = here(list.rows);
    const auto gradients = here(list.gradients);
    const cuda::Array<float> gathered(cuda::memory_on(device()), std::max<Count>(1, list.count() * cols),
                                      "test", device());
    embedding_.gather(0, ids.data(), list.count(), gathered.data(), stream_);
    embedding_.update(ids.data(), list.count(), gradients.data(), {.rate = 0.1, .scale = 0.5}, stream_);
    embedding_.write(0, ids.data(), std::min<Count>(2, list.count()), gradients.data(), stream_);
  }
  std::vector<float> all(int part) {
    std::vector<NodeId> ids(kRows);
    std::iota(ids.begin(), ids.end(), 0);
    const auto on_device = here(ids);
    std::vector<float> rows(at(kRows * embedding_.parts()[at(part)].cols));
    const cuda::Array<float> out(cuda::memory_on(device()), std::ssize(rows), "test", device());
    embedding_.gather(part, on_device.data(), kRows, out.data(), stream_);
    cuda::copy_async(rows.data(), out.data(), rows.size() * sizeof(float), stream_);
    stream_.synchronize();
    return rows;
  }
  int num_parts() const { return static_cast<int>(embedding_.parts().size()); }

 private:
  Device device() const { return runtime_->device(); }
  template <typename T>
  cuda::Array<T> here(const std::vector<T>& values) const {
    cuda::Array<T> array(cuda::memory_on(device()), std::max<Count>(1, std::ssize(values)), "test", device());
    cuda::copy_async(array.data(), values.data(), values.size() * sizeof(T), stream_);
    stream_.synchronize();
    return array;
  }

  std::shared_ptr<Runtime> runtime_;
  cuda::Stream stream_;
  Embedding embedding_;
};

TEST(EmbeddingOnGpu, LearnsAsOnTheCpu) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  const int rank = test::world().rank();
  for (const int ranks_per_machine : {0, 1}) {
    for (const RowPlacement placement : {RowPlacement::host, RowPlacement::automatic}) {
      for (const RowOptimizer optimizer : {RowOptimizer::sgd, RowOptimizer::adam}) {
        for (const Count cols : {5, 64}) {
          SCOPED_TRACE(testing::Message()
                       << ranks_per_machine << " ranks per machine, " << enum_name(placement) << ", "
                       << enum_name(optimizer) << ", " << cols << " columns");
          EmbeddingOptions options{.rows = kRows, .cols = cols, .optimizer = optimizer};
          Table cpu(Compute::cpu, ranks_per_machine, options);
          options.placement = placement;
          Table gpu(Compute::cuda, ranks_per_machine, options);
          for (unsigned step = 0; step < 3; ++step) {
            const Count count = step == 1 && rank == 1 ? 0 : 200;
            const test::RowList list = test::row_list({.rows = kRows,
                                                       .count = count,
                                                       .hot = count / 2,
                                                       .cols = cols,
                                                       .seed = 10 * step + static_cast<unsigned>(rank)});
            cpu.step(list, cols);
            gpu.step(list, cols);
          }
          for (int part = 0; part < cpu.num_parts(); ++part) EXPECT_EQ(gpu.all(part), cpu.all(part)) << part;
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::batches
