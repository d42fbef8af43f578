// SPDX-License-Identifier: Apache-2.0
#include "load/feature_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "strata/tensor/array_copies.hpp"
#include "strata/tensor/host_array.hpp"
#include "strata/util/error.hpp"
#include "strata/util/ranges.hpp"

namespace strata::store {
namespace {

constexpr std::size_t kTaskBytes = std::size_t{4} << 20;  // per task of a thread
// per read, which stays in L2 while it is checked
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
constexpr std::size_t kStagingBytes = std::size_t{128} << 20;

template <typename Bits>
struct FloatFormat {
  Bits exponent_mask;
  float (*to_f32)(Bits);
  Bits (*from_f32)(float);
};

// In these formats exactly infinities and NaN have an exponent of all ones.
constexpr FloatFormat<std::uint32_t> kF32{0x7F800000u,
                                          [](std::uint32_t b) { return __builtin_bit_cast(float, b); },
                                          [](float v) { return __builtin_bit_cast(std::uint32_t, v); }};
const FloatFormat<std::uint16_t> kF16{0x7C00u, f16_to_f32, f32_to_f16};
const FloatFormat<std::uint16_t> kBF16{0x7F80u, bf16_to_f32, f32_to_bf16};

template <typename Work>
void with_format(DType dtype, Work&& work) {
  switch (dtype) {
    case DType::f32:
      return work(kF32);
    case DType::f16:
      return work(kF16);
    case DType::bf16:
      return work(kBF16);
    default:
      throw InputError(fmt::format("features of type {} cannot be trained on", name_of(dtype)),
                       "Store them as f32, f16 or bf16.");
  }
}

template <typename Bits>
bool is_finite(Bits value, Bits exponent_mask) {
  return (value & exponent_mask) != exponent_mask;
}

/// It has no branch, so that it is vectorised.
template <typename Bits>
bool are_finite(const Bits* values, Count count, Bits exponent_mask) {
  Bits found = 0;
  for (Count i = 0; i < count; ++i) found |= static_cast<Bits>(!is_finite(values[i], exponent_mask));
  return found == 0;
}

template <typename Bits>
void normalize_row(Bits* row, Count cols, const FloatFormat<Bits>& format) {
  double sum = 0;
  for (Count c = 0; c < cols; ++c) sum += std::abs(static_cast<double>(format.to_f32(row[c])));
  if (sum == 0) return;
  for (Count c = 0; c < cols; ++c) {
    row[c] = format.from_f32(static_cast<float>(static_cast<double>(format.to_f32(row[c])) / sum));
  }
}

void round_to_bf16(const RowBlock& block) {
  with_format(block.dtype, [&]<typename Bits>(const FloatFormat<Bits>& format) {
    Bits* values = reinterpret_cast<Bits*>(block.data);
    for (Count i = 0; i < block.rows * block.cols; ++i)
      values[i] = format.from_f32(bf16_to_f32(f32_to_bf16(format.to_f32(values[i]))));
  });
}

Count rows_in(std::size_t bytes, const tensor::TensorSpec& spec) {
  return std::max<Count>(1, static_cast<Count>(bytes / spec.row_bytes()));
}

/// Reads, checks and normalises rows of floats.
void read_floats(const FeatureSource& source, const RowForm& form, Range rows, std::byte* out) {
  source.read(rows.first, rows.count, out);
  const RowBlock block{out, rows.count, form.type.cols, form.type.dtype};
  check_rows(block, [&](Count bad) { return source.describe(rows.first + bad); });
  if (form.row_normalize) normalize_rows(block);
  const Count exact = std::clamp<Count>(form.bf16_from - rows.first, 0, rows.count);
  if (exact < rows.count)
    round_to_bf16(
        {out + at(exact) * form.type.row_bytes(), rows.count - exact, form.type.cols, form.type.dtype});
}

/// Reads and checks rows in the tensor's code.
void read_codes(const FeatureSource& source, const RowType& type, Range rows, std::byte* out) {
  source.read(rows.first, rows.count, out);
  const std::size_t row_bytes = type.row_bytes();
  for (Count r = 0; r < rows.count; ++r)
    if (!type.code.is_finite(out + at(r) * row_bytes))
      throw InputError(fmt::format("{}: it is not finite", source.describe(rows.first + r)),
                       "The file is damaged: build the parts again.");
}

void to_f32(const RowBlock& row, float* out) {
  with_format(row.dtype, [&]<typename Bits>(const FloatFormat<Bits>& format) {
    std::transform(reinterpret_cast<const Bits*>(row.data),
                   reinterpret_cast<const Bits*>(row.data) + row.cols, out, format.to_f32);
  });
}

/// Where rows of floats come from that are compressed.
struct EncodedRows {
  const FeatureSource& source;
  const RowForm& form;
  const RowCode& code;
};
void read_and_encode(const EncodedRows& from, Range rows, std::byte* out) {
  const RowType& type = from.form.type;
  const std::size_t row_bytes = type.row_bytes();
  std::vector<std::byte> floats(at(rows.count) * row_bytes);
  std::vector<float> row(at(type.cols));
  read_floats(from.source, from.form, rows, floats.data());
  for (Count r = 0; r < rows.count; ++r) {
    to_f32({floats.data() + at(r) * row_bytes, 1, type.cols, type.dtype}, row.data());
    std::byte* const to = out + r * from.code.row_bytes();
    from.code.encode(row.data(), to);
    if (!from.code.is_finite(to))
      throw InputError(fmt::format("{}: a feature is beyond the range of {}",
                                   from.source.describe(rows.first + r), name_of(from.code.kind)),
                       "Leave --feature-format out.");
  }
}

void read_chunk(const tensor::TensorSpec& spec, const FeatureFill& fill, Range rows, std::byte* out) {
  read_rows(fill.source, fill.form, spec.code, {rows, out});
  fill.progress.advance(rows.count * static_cast<Count>(fill.form.type.row_bytes()));
}

/// Calls read(chunk of rows) for all rows, from all threads. All chunks except the first begin with a block
/// of the source.
template <typename Read>
void in_chunks(const tensor::TensorSpec& spec, const FeatureFill& fill, Range rows, Read&& read) {
  const Count step = rows_in(kChunkBytes, spec);
  const auto border = [&](Count row, Count least) {
    if (row >= rows.end()) return rows.end();
    return fill.source.block_start ? std::max(least, fill.source.block_start(row)) : row;
  };
  fill.pool.parallel_for(rows.count, rows_in(kTaskBytes, spec), [&](Count begin, Count end) {
    const Count last = border(rows.first + end, rows.first);
    for (Count row = begin == 0 ? rows.first : border(rows.first + begin, rows.first); row < last;) {
      Count next = std::min(last, border(row + step, row));
      if (next == row) next = std::min(last, row + step);  // a block longer than a chunk
      read(Range{row, next - row});
      row = next;
    }
  });
}

/// Memory for a chunk of rows: on the stack, where there are no page faults, unless a single row is longer.
class ChunkBuffer {
 public:
  explicit ChunkBuffer(std::size_t bytes) : bytes_(bytes), long_rows_(bytes > near_.size() ? bytes : 0) {}
  std::span<std::byte> bytes() { return {long_rows_.empty() ? near_.data() : long_rows_.data(), bytes_}; }

 private:
  std::size_t bytes_;
  std::array<std::byte, kChunkBytes> near_;
  std::vector<std::byte> long_rows_;
};

Range own_share(const comm::Machine& machine, const FeatureSource& source, Range rows) {
  if (!source.on_first_rank_only) return share_of(rows, machine.rank(), machine.size());
  return machine.rank() == 0 ? rows : Range{rows.end(), 0};
}

/// Writes a staged block: all replicated rows to this rank's GPU, and those of the other rows that this rank
/// read.
struct StagedBlock {
  Range rows, own;
  const std::byte* data;
};
void write_staged(tensor::ChunkTensor& tensor, const tensor::Layout& layout, const StagedBlock& block) {
  const auto write = [&](Count first, Count end) {
    if (first >= end) return;
    tensor.write_rows(first, end - first,
                      block.data + at(first - block.rows.first) * tensor.spec().row_bytes());
  };
  layout.for_each_run(block.rows.first, block.rows.count, [&](const tensor::Layout::Run& run) {
    const Count end = run.first + run.count;
    if (run.location.stratum == tensor::Stratum::replicated) return write(run.first, end);
    write(std::max(run.first, block.own.first), std::min(end, block.own.end()));
  });
}

void fill_through_staging(const comm::Machine& machine, tensor::ChunkTensor& tensor, const FeatureFill& fill,
                          std::span<const Range> ranges) {
  const tensor::TensorSpec& spec = tensor.spec();
  const tensor::Layout layout(tensor.placement());
  const Count staged_rows = std::clamp<Count>(static_cast<Count>(kStagingBytes / spec.row_bytes()), 1,
                                              std::max<Count>(1, spec.rows));
  const tensor::HostRegion staging = tensor::HostRegion::create(machine, at(staged_rows) * spec.row_bytes(),
                                                                fmt::format("loading \"{}\"", spec.name));
  const auto stage = [&](Range rows) {
    const Range own = own_share(machine, fill.source, rows);
    machine.together([&] {
      in_chunks(spec, fill, own, [&](Range chunk) {
        read_chunk(spec, fill, chunk, staging.data() + at(chunk.first - rows.first) * spec.row_bytes());
      });
    });
    machine.together([&] { write_staged(tensor, layout, {rows, own, staging.data()}); });
  };
  for (const Range& range : ranges)
    for (Count first = range.first; first < range.end(); first += staged_rows)
      stage({first, std::min(staged_rows, range.end() - first)});
}

}  // namespace

void check_rows(const RowBlock& block, const std::function<std::string(Count)>& describe) {
  with_format(block.dtype, [&]<typename Bits>(const FloatFormat<Bits>& format) {
    const Bits* values = reinterpret_cast<const Bits*>(block.data);
    const Count size = block.rows * block.cols;
    if (are_finite(values, size, format.exponent_mask)) return;
    const Count bad = std::find_if(values, values + size,
                                   [&](Bits value) { return !is_finite(value, format.exponent_mask); }) -
                      values;
    throw InputError(fmt::format("{}: feature {} is {}", describe(bad / block.cols), bad % block.cols,
                                 std::isnan(format.to_f32(values[bad])) ? "NaN" : "infinite"),
                     "Replace such values in the input and build the parts again.");
  });
}

void normalize_rows(const RowBlock& block) {
  with_format(block.dtype, [&]<typename Bits>(const FloatFormat<Bits>& format) {
    Bits* values = reinterpret_cast<Bits*>(block.data);
    for (Count r = 0; r < block.rows; ++r) normalize_row(values + r * block.cols, block.cols, format);
  });
}

void read_rows(const FeatureSource& source, const RowForm& form, const RowCode& code,
               const RowDestination& to) {
  if (form.type.code) {
    read_codes(source, form.type, to.rows, to.data);
  } else if (code) {
    read_and_encode({source, form, code}, to.rows, to.data);
  } else {
    read_floats(source, form, to.rows, to.data);
  }
}

void fill_features(const comm::Machine& machine, tensor::ChunkTensor& tensor, const FeatureFill& fill) {
  const tensor::TensorSpec& spec = tensor.spec();
  if (spec.rows == 0 || spec.cols == 0) return;
  if (fill.form.row_normalize && fill.form.type.code)
    throw InputError("compressed features cannot be normalised while they are loaded",
                     "Build the parts with --normalize-features.");
  const std::vector<Range> ranges = fill.rows.empty() ? std::vector{Range{0, spec.rows}} : fill.rows;
  if (tensor.host_data() == nullptr) return fill_through_staging(machine, tensor, fill, ranges);
  const auto read = [&](Range chunk) {
    ChunkBuffer buffer(at(chunk.count) * spec.row_bytes());
    tensor.fill_host_rows(chunk.first, buffer.bytes(),
                          [&](std::byte* out) { read_chunk(spec, fill, chunk, out); });
  };
  machine.together([&] {
    for (const Range& range : ranges) in_chunks(spec, fill, own_share(machine, fill.source, range), read);
  });
}

}  // namespace strata::store
