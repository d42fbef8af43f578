// SPDX-License-Identifier: Apache-2.0
#include "support/tensor_cases.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "support/random_dataset.hpp"

namespace strata::test {
namespace {

constexpr int kPoison = 0xFB;  // four of them are a float no gather gives

bool is_poison(float value) {
  unsigned char bytes[4];
  std::memcpy(bytes, &value, 4);
  return std::ranges::all_of(bytes, [](unsigned char b) { return b == kPoison; });
}

/// Writes [first, end) in pieces of 1, 2, ... rows; piece i only on rank i mod size, or all pieces on every
/// rank.
struct Writer {
  tensor::ChunkTensor& tensor;
  const std::byte* data;
  int rank, size;
  Count piece = 0;

  void write(Count first, Count end, bool on_every_rank) {
    for (Count row = first; row < end;) {
      const Count count = std::min(1 + piece * 7 % 200, end - row);
      if (on_every_rank || piece % size == rank) {
        tensor.write_rows(row, count, data + static_cast<std::size_t>(row) * tensor.spec().row_bytes());
      }
      row += count;
      ++piece;
    }
  }
};

}  // namespace

Count TensorCase::rows() const {
  Count sum = 0;
  for (const tensor::Segment& s : placement.segments) sum += s.rows();
  return sum;
}

std::string TensorCase::str() const {
  std::string text = fmt::format("{} x {} of {}, seed {}, stripes of {}, segments", rows(), cols,
                                 name_of(dtype), seed, placement.stripe_rows);
  for (const tensor::Segment& s : placement.segments)
    text += fmt::format(" {{{}, {}, {}}}", s.replicated, s.striped, s.host);
  return text;
}

FilledTensor fill(const comm::Machine& machine, const TensorCase& tensor_case) {
  const RandomValues values =
      random_values(tensor_case.rows() * tensor_case.cols, tensor_case.dtype, tensor_case.seed);
  tensor::ChunkTensor tensor = tensor::ChunkTensor::create(
      machine,
      {.name = "test", .rows = tensor_case.rows(), .cols = tensor_case.cols, .dtype = tensor_case.dtype},
      tensor_case.placement);
  Writer writer{tensor, values.bytes.data(), machine.rank(), machine.size()};
  Count row = 0;
  for (const tensor::Segment& s : tensor.placement().segments) {
    writer.write(row, row + s.replicated, true);
    writer.write(row + s.replicated, row + s.rows(), false);
    row += s.rows();
  }
  machine.barrier();
  return {std::move(tensor), values.floats};
}

std::vector<NodeId> random_ids(const IdOptions& options) {
  std::mt19937_64 random(options.seed);
  std::vector<NodeId> ids;
  for (Count i = 0; i < options.count; ++i) {
    const bool missing = random() % 8 == 0 || options.below == 0;
    ids.push_back(missing ? -1
                          : options.first +
                                static_cast<NodeId>(random() % static_cast<std::uint64_t>(options.below)));
  }
  if (options.sorted) std::ranges::sort(ids);
  return ids;
}

std::vector<float> expected_rows(const FilledTensor& filled, std::span<const NodeId> ids, NodeId first) {
  const auto cols = static_cast<std::size_t>(filled.tensor.spec().cols);
  std::vector<float> rows(ids.size() * cols, 0.0f);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == -1) continue;
    const float* row = filled.values.data() + static_cast<std::size_t>(ids[i] - first) * cols;
    std::copy(row, row + cols, rows.begin() + static_cast<std::ptrdiff_t>(i * cols));
  }
  return rows;
}

std::vector<float> gathered(const tensor::ChunkTensor& tensor, Device device, std::span<const NodeId> ids,
                            const GatherOptions& options) {
  constexpr Count kGuard = 64;
  const Count count = std::ssize(ids), elements = count * tensor.spec().cols;
  const cuda::DeviceGuard guard(device);
  const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
  const cuda::Array<NodeId> ids_there(cuda::memory_on(device), count + 1, "ids", device);
  const cuda::Array<float> out(cuda::memory_on(device), options.misalignment + elements + kGuard, "out",
                               device);
  const std::size_t out_bytes = static_cast<std::size_t>(out.size()) * sizeof(float);
  cuda::copy_async(ids_there.data(), ids.data(), ids.size_bytes(), stream);
  cuda::fill_async(out.data(), kPoison, out_bytes, stream);
  ThreadPool pool(2);
  tensor.gather({.data = ids_there.data(), .size = count, .first = options.first},
                out.data() + options.misalignment, stream, pool);
  std::vector<float> all(static_cast<std::size_t>(out.size()));
  cuda::copy_async(all.data(), out.data(), out_bytes, stream);
  stream.synchronize();
  const auto begin = all.begin() + options.misalignment, end = begin + elements;
  EXPECT_TRUE(std::all_of(all.begin(), begin, is_poison)) << "wrote before the result";
  EXPECT_TRUE(std::all_of(end, all.end(), is_poison)) << "wrote behind the result";
  return {begin, end};
}

}  // namespace strata::test
