// SPDX-License-Identifier: Apache-2.0
#include "support/tensor_cases.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "support/random_dataset.hpp"

namespace strata::test {
namespace {

using tensor::Stratum;

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
        tensor.write_rows(row, count, data + at(row) * tensor.spec().row_bytes());
      }
      row += count;
      ++piece;
    }
  }
};

/// The code of a case with some rows as its sample, and the rows in it.
RowCode encode(const TensorCase& tensor_case, RandomValues& values) {
  RowCode code{.kind = tensor_case.code, .cols = tensor_case.cols};
  ThreadPool pool(1);
  const Count rows = tensor_case.rows();
  if (code.kind == RowCode::Kind::vq)
    code = train_vector_code(values.floats.data(), std::min<Count>(rows, 300), code.cols, tensor_case.seed,
                             pool);
  values.bytes.resize(at(rows * code.row_bytes()));
  for (Count row = 0; row < rows; ++row) {
    float* const floats = values.floats.data() + row * code.cols;
    std::byte* const bytes = values.bytes.data() + row * code.row_bytes();
    code.encode(floats, bytes);
    code.decode(bytes, floats);
  }
  return code;
}

/// Memory on a device, poisoned.
template <typename T>
cuda::Array<T> poisoned(Count size, Device device, const cuda::Stream& stream) {
  cuda::Array<T> memory(cuda::memory_on(device), size, "out", device);
  cuda::fill_async(memory.data(), kPoison, at(size) * sizeof(T), stream);
  return memory;
}

template <typename T>
cuda::Array<T> copied(std::span<const T> values, Device device, const cuda::Stream& stream) {
  cuda::Array<T> memory(cuda::memory_on(device), std::ssize(values) + 1, "in", device);
  cuda::copy_async(memory.data(), values.data(), values.size_bytes(), stream);
  return memory;
}

template <typename T>
std::vector<T> on_host(const cuda::Array<T>& memory, const cuda::Stream& stream) {
  std::vector<T> values(at(memory.size()));
  cuda::copy_async(values.data(), memory.data(), values.size() * sizeof(T), stream);
  stream.synchronize();
  return values;
}

}  // namespace

Count TensorCase::rows() const {
  Count sum = 0;
  for (const tensor::Segment& s : placement.segments) sum += s.rows();
  return sum;
}

std::string TensorCase::str() const {
  std::string text =
      fmt::format("{} x {} of {}, seed {}, stripes of {}, segments", rows(), cols,
                  code == RowCode::Kind::none ? name_of(dtype) : name_of(code), seed, placement.stripe_rows);
  for (const tensor::Segment& s : placement.segments)
    text += fmt::format(" {{{}, {}, {}}}", s[Stratum::replicated], s[Stratum::striped], s[Stratum::host]);
  return text;
}

FilledTensor fill(const comm::Machine& machine, const TensorCase& tensor_case) {
  RandomValues values =
      random_values(tensor_case.rows() * tensor_case.cols, tensor_case.dtype, tensor_case.seed);
  const bool coded = tensor_case.code != RowCode::Kind::none;
  tensor::ChunkTensor tensor =
      tensor::ChunkTensor::create(machine,
                                  {.name = "test",
                                   .rows = tensor_case.rows(),
                                   .cols = tensor_case.cols,
                                   .dtype = coded ? DType::u8 : tensor_case.dtype,
                                   .code = coded ? encode(tensor_case, values) : RowCode()},
                                  tensor_case.placement);
  Writer writer{tensor, values.bytes.data(), machine.rank(), machine.size()};
  Count row = 0;
  for (const tensor::Segment& s : tensor.placement().segments) {
    writer.write(row, row + s[Stratum::replicated], true);
    writer.write(row + s[Stratum::replicated], row + s.rows(), false);
    row += s.rows();
  }
  machine.barrier();
  return {std::move(tensor), std::move(values.floats), std::move(values.bytes)};
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
  const auto cols = at(filled.tensor.spec().cols);
  std::vector<float> rows(ids.size() * cols, 0.0f);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == -1) continue;
    const float* row = filled.values.data() + at(ids[i] - first) * cols;
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
  const std::size_t out_bytes = at(out.size()) * sizeof(float);
  cuda::copy_async(ids_there.data(), ids.data(), ids.size_bytes(), stream);
  cuda::fill_async(out.data(), kPoison, out_bytes, stream);
  ThreadPool pool(2);
  tensor.gather({.data = ids_there.data(), .size = count, .first = options.first},
                out.data() + options.misalignment, stream, pool);
  std::vector<float> all(at(out.size()));
  cuda::copy_async(all.data(), out.data(), out_bytes, stream);
  stream.synchronize();
  const auto begin = all.begin() + options.misalignment, end = begin + elements;
  EXPECT_TRUE(std::all_of(all.begin(), begin, is_poison)) << "wrote before the result";
  EXPECT_TRUE(std::all_of(end, all.end(), is_poison)) << "wrote behind the result";
  return {begin, end};
}

std::vector<std::byte> gathered_codes(const tensor::ChunkTensor& tensor, Device device,
                                      std::span<const NodeId> ids) {
  const cuda::DeviceGuard guard(device);
  const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
  const auto ids_there = copied(ids, device, stream);
  const Count bytes = std::ssize(ids) * static_cast<Count>(tensor.spec().row_bytes());
  const auto out = poisoned<std::byte>(bytes + 1, device, stream);
  ThreadPool pool(2);
  tensor.gather({.data = ids_there.data(), .size = std::ssize(ids)}, {.data = out.data(), .dtype = DType::u8},
                stream, pool);
  std::vector<std::byte> all = on_host(out, stream);
  EXPECT_EQ(all.back(), static_cast<std::byte>(kPoison)) << "wrote behind the result";
  all.pop_back();
  return all;
}

std::vector<std::byte> expected_codes(const FilledTensor& filled, std::span<const NodeId> ids) {
  const std::size_t row_bytes = filled.tensor.spec().row_bytes();
  std::vector<std::byte> codes(ids.size() * row_bytes);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= 0)
      std::copy_n(filled.bytes.begin() + ids[i] * static_cast<std::ptrdiff_t>(row_bytes), row_bytes,
                  codes.begin() + static_cast<std::ptrdiff_t>(i * row_bytes));
  return codes;
}

namespace {

/// [rows, cols], poisoned and then decoded into.
std::vector<float> decoded(const tensor::ChunkTensor& tensor, Device device, std::span<const std::byte> codes,
                           std::span<const std::int32_t> positions, Count rows) {
  const cuda::DeviceGuard guard(device);
  const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
  const auto codes_there = copied(codes, device, stream);
  const auto positions_there = copied(positions, device, stream);
  const auto out = poisoned<float>(rows * tensor.spec().cols, device, stream);
  ThreadPool pool(2);
  tensor.decode(
      {.rows = codes_there.data(), .positions = positions_there.data(), .count = std::ssize(positions)},
      out.data(), stream, pool);
  return on_host(out, stream);
}

}  // namespace

void expect_decodes(const FilledTensor& filled, Device device) {
  const tensor::TensorSpec& spec = filled.tensor.spec();
  std::vector<std::int32_t> positions(at(spec.rows));
  std::vector<float> expected(filled.values.size());
  for (Count row = 0; row < spec.rows; ++row) {
    const Count to = spec.rows - 1 - row;
    positions[at(row)] = row % 5 == 0 ? -1 : static_cast<std::int32_t>(to);
    if (row % 5 > 0)
      std::copy_n(filled.values.begin() + row * spec.cols, spec.cols, expected.begin() + to * spec.cols);
  }
  const std::vector<float> got = decoded(filled.tensor, device, filled.bytes, positions, spec.rows);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Count row = spec.rows - 1 - static_cast<Count>(i) / spec.cols;
    if (row % 5 == 0) {
      ASSERT_TRUE(is_poison(got[i])) << "row " << row << " was to be left out";
    } else {
      ASSERT_EQ(got[i], expected[i]) << "row " << row;
    }
  }
}

}  // namespace strata::test
