// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "strata/cuda/stream.hpp"
#include "strata/tensor/array_copies.hpp"
#include "strata/tensor/chunk_tensor.hpp"

namespace strata::tensor {

/// Segments that are passed with a launch; more are read from device memory.
constexpr int kInlineSegments = 16;

/// The first id out of range that a checked operation found; in device memory.
struct BadId {
  std::int32_t locked = 0;
  std::int32_t found = 0;
  Count position = 0;
  NodeId id = 0;
};

/// Every stratum of a tensor as one GPU sees it. A view, passed to kernels by value.
struct RowTable {
  std::byte* replicated = nullptr;
  std::byte* host = nullptr;
  std::array<std::byte*, kMaxStripeGpus> stripe_data{};
  Stripes stripes;
  int num_segments = 0;
  std::array<SegmentLayout, kInlineSegments> inline_segments{};
  const SegmentLayout* device_segments = nullptr;  ///< used if num_segments > kInlineSegments
  Count rows = 0;
  Count row_bytes = 0;   ///< of the elements
  Count row_pitch = 0;   ///< from one row to the next, in bytes
  BadId* bad = nullptr;  ///< null: ids are not checked
};

/// The ids of an operation as kernels take them: entries [*begin, *end) of a list.
struct RowList {
  const void* ids = nullptr;
  bool wide = true;
  NodeId first = 0;
  Count bound = 0;                           ///< upper bound of the number of entries
  const Count* begin = nullptr;              ///< on the device; null: 0
  const Count* end = nullptr;                ///< on the device; null: bound
  const std::uint32_t* positions = nullptr;  ///< output row of each entry; null: the entry's own index

  static RowList of(const RowIds& ids) {
    return {.ids = ids.data, .wide = ids.wide, .first = ids.first, .bound = ids.size, .end = ids.count};
  }
};

/// Elements as the kernels move them.
struct RowFormat {
  DType stored = DType::f32, out = DType::f32;
  Count cols = 0;
  Count out_pitch = 0;                       ///< in elements
  float scale = 1;                           ///< of i8 elements that become floats
  RowCode::Kind code = RowCode::Kind::none;  ///< code of the rows to decode; `stored` then has no meaning
  const float* codebooks = nullptr;          ///< on the device; those of the code
};

/// A list of rows to gather, their type, and where they go: out[position] = row for each entry of the list.
struct RowGather {
  RowList list;
  RowFormat format;
  void* out = nullptr;
  bool sorted = false;  ///< the list's ids are ascending; never changes the result
};

/// How a kernel may use the GPU.
struct LaunchShape {
  int multiprocessors = 0;  ///< use at most the threads of this many; 0: no limit
  /// The walk over the list begins at start / 2^20 of it, so that GPUs read from different peers.
  Count start = 0;
  bool aligned = false;  ///< reads of long rows begin at multiples of 128 bytes
  bool local = false;    ///< all rows are replicated
};

/// Host rows are skipped if table.host is null. Asynchronous on `stream`.
void gather_on_gpu(const RowTable& table, const RowGather& gather, const LaunchShape& shape,
                   const cuda::Stream& stream);

/// The same for rows in a code. REQUIRES: format.code.
void gather_codes_on_gpu(const RowTable& table, const RowGather& gather, const LaunchShape& shape,
                         const cuda::Stream& stream);

/// Decodes codes of `row_bytes` for ChunkTensor::decode(). Asynchronous on `stream`.
void decode_on_gpu(const CodedRows& coded, Count row_bytes, const RowFormat& format, float* out,
                   const cuda::Stream& stream);

/// Adds to counts [kNumStrata] how many entries of the list name a row of each stratum. Asynchronous on
/// `stream`.
void count_strata_on_gpu(const RowTable& table, const RowList& list, Count* counts,
                         const cuda::Stream& stream);

/// The replicated rows on each GPU. scatter_on_gpu() writes rows to wherever they lie, a replicated row to
/// each of the replicas in turn. Asynchronous on `stream`.
struct Replicas {
  std::array<std::byte*, kMaxStripeGpus> data{};
  int count = 0;
};
void scatter_on_gpu(const RowTable& table, const RowList& list, const RowFormat& format, const void* in,
                    const Replicas& replicas, const LaunchShape& shape, const cuda::Stream& stream);

/// The rows that CPU threads reach.
struct HostRows {
  const TensorSpec* spec = nullptr;
  std::byte* data = nullptr;  ///< consecutive rows in host memory
  const Layout* layout = nullptr;
  RowStorage* storage = nullptr;  ///< null: row r of the tensor is row r in host memory

  Location location(Count row) const {
    if (storage == nullptr) return {Stratum::host, row};
    return locate(layout->segments().data(), static_cast<int>(layout->segments().size()), row);
  }
};

/// ChunkTensor::gather and scatter on the cpu. Throw Error for an id out of range if `checked`.
void gather_on_cpu(const HostRows& rows, const RowIds& ids, const RowsOut& out, bool checked,
                   ThreadPool& pool);
void decode_on_cpu(const RowCode& code, const CodedRows& coded, float* out, ThreadPool& pool);
/// Adds to counts [kNumStrata] how many ids name a row of each stratum.
void count_on_cpu(const HostRows& rows, const RowIds& ids, Count* counts);
void scatter_on_cpu(const HostRows& rows, const RowIds& ids, const RowsIn& in, bool checked,
                    ThreadPool& pool);

}  // namespace strata::tensor
