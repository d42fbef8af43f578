// SPDX-License-Identifier: Apache-2.0
#include "as_tensor.hpp"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstring>

#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::train {
namespace {

using test::RunSetup;
using Compute = comm::TopologyOptions::Compute;

// The replicated rows come first, then this rank's share of the stripes, then the host's.
TEST(AsTensorOnGpu, ShowsEachStratumWhereItLies) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  const RunSetup run(0, Compute::cuda);
  for (const bool padded : {false, true}) {
    const tensor::TensorSpec spec{
        .name = "table", .rows = 60, .cols = 5, .dtype = DType::f16, .padded = padded};
    auto table = tensor::ChunkTensor::create(
        run.machine, spec, {.segments = {{{tensor::Stratum::replicated, 20}, {tensor::Stratum::host, 40}}}});
    const test::RandomValues values = test::random_values(spec.rows * spec.cols, spec.dtype, 4);
    table.write_rows(0, 20, values.bytes.data());
    if (run.machine.rank() == 0) table.write_rows(20, 40, values.bytes.data() + 20 * spec.row_bytes());
    const cuda::Stream stream(run.machine.device());
    table.fence(run.machine, stream);

    std::vector<std::byte> rows(values.bytes.size(), std::byte{0x7B});
    std::size_t done = 0;
    for (const tensor::StratumView& view : table.views()) {
      const at::Tensor tensor = as_tensor(spec, view);
      EXPECT_EQ(tensor.is_cuda(), view.stratum == tensor::Stratum::replicated);
      EXPECT_EQ(tensor.scalar_type(), at::kHalf);
      EXPECT_EQ(tensor.stride(0), padded ? 64 : 5);
      EXPECT_EQ(tensor.data_ptr(), view.data);
      const at::Tensor dense = tensor.to(at::kCPU).contiguous();
      ASSERT_LE(done + dense.nbytes(), rows.size());
      std::memcpy(rows.data() + done, dense.data_ptr(), dense.nbytes());
      done += dense.nbytes();
    }
    EXPECT_EQ(done, rows.size());
    EXPECT_EQ(rows, values.bytes);
    table.fence(run.machine, stream);
    table.close(run.machine);
  }
}

}  // namespace
}  // namespace strata::train
