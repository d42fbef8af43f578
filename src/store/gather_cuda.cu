#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "gather.hpp"
#include "strata/cuda/check.cuh"

namespace strata::store {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;
constexpr int kInFlight = 4;  // independent loads a thread; 8 gained nothing in measurements

template <int kBytes>
struct Word;
template <>
struct Word<1> {
  using Type = unsigned char;
};
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned int;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

/// kWidth neighbouring elements of a row, loaded at once.
template <typename Element, int kWidth>
struct Pack {
  using Bits = typename Word<static_cast<int>(sizeof(Element)) * kWidth>::Type;
  Bits bits;
};

template <typename Element>
__device__ float to_float(Element value) {
  return static_cast<float>(value);
}
template <>
__device__ float to_float(__half value) {
  return __half2float(value);
}
template <>
__device__ float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

__device__ const std::byte* address_of(const GatherTable& table, Count row) {
  const SegmentLayout* segments =
      table.num_segments > kInlineSegments ? table.device_segments : table.inline_segments.data();
  const Location at = locate(segments, table.num_segments, row);
  if (at.stratum == Stratum::replicated) return table.replicated + at.row * table.row_bytes;
  if (at.stratum == Stratum::host) return table.host + at.row * table.row_bytes;
  const StripeLocation stripe = locate_stripe(at.row, table.stripe_shift, table.num_gpus);
  return table.stripes[static_cast<std::size_t>(stripe.gpu)] + stripe.row * table.row_bytes;
}

template <typename Element, int kWidth>
__device__ void store_as_floats(const Pack<Element, kWidth>& pack, float* out) {
  Element elements[kWidth];
  memcpy(elements, &pack.bits, sizeof(elements));
  float values[kWidth];
#pragma unroll
  for (int e = 0; e < kWidth; ++e) values[e] = to_float(elements[e]);
  if constexpr (kWidth % 4 == 0) {
#pragma unroll
    for (int e = 0; e < kWidth; e += 4) {
      __stcs(reinterpret_cast<float4*>(out + e),
             make_float4(values[e], values[e + 1], values[e + 2], values[e + 3]));
    }
  } else if constexpr (kWidth == 2) {
    __stcs(reinterpret_cast<float2*>(out), make_float2(values[0], values[1]));
  } else {
    __stcs(out, values[0]);
  }
}

struct RowIdsChunk {
  const NodeId* ids;
  NodeId first;
  std::uint32_t rows;
};

// Consecutive threads take consecutive packs of the output, so that stores coalesce and the loads of a row
// do; each thread has kInFlight loads on their way before it stores the first. The loads decide: 512-byte
// rows stream from local HBM at about 1.9 TB/s, from a peer at 0.37, from host memory at 0.05 (one
// translation a row there, whatever the kernel does). Indices stay below 2^31 (see launch), which makes the
// divisions 32-bit ones.
template <typename Element, int kWidth>
__global__ void __launch_bounds__(kThreads)
    gather_rows(const __grid_constant__ GatherTable table, RowIdsChunk chunk, std::uint32_t packs_a_row,
                float* out) {
  using Bits = typename Pack<Element, kWidth>::Bits;
  const std::uint32_t total = chunk.rows * packs_a_row;
  const std::uint32_t stride = gridDim.x * blockDim.x;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += stride * kInFlight) {
    Pack<Element, kWidth> packs[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const std::uint32_t j = i + static_cast<std::uint32_t>(k) * stride;
      if (j >= total) break;
      const std::uint32_t row = j / packs_a_row, pack = j - row * packs_a_row;
      const NodeId id = chunk.ids[row];
      packs[k].bits = Bits{};
      if (id >= 0) {
        const std::byte* address = address_of(table, id - chunk.first);
        packs[k].bits = __ldcs(reinterpret_cast<const Bits*>(address) + pack);
      }
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const std::uint32_t j = i + static_cast<std::uint32_t>(k) * stride;
      if (j >= total) break;
      store_as_floats<Element, kWidth>(packs[k], out + static_cast<std::size_t>(j) * kWidth);
    }
  }
}

struct Launch {
  const GatherTable& table;
  const GatherShape& shape;
  const RowIds& ids;
  float* out;
  const cuda::Stream& stream;
};

/// In pieces of fewer than 2^30 packs each.
template <typename Element, int kWidth>
void launch(const Launch& l) {
  constexpr Count kMaxPacks = Count{1} << 30;
  const Count packs_a_row = l.shape.cols / kWidth;
  const Count max_rows = std::max<Count>(1, kMaxPacks / packs_a_row);
  for (Count begin = 0; begin < l.ids.size; begin += max_rows) {
    const Count rows = std::min(max_rows, l.ids.size - begin);
    constexpr Count kPacksPerBlock = Count{kThreads} * kInFlight;
    const Count blocks = std::min<Count>((rows * packs_a_row + kPacksPerBlock - 1) / kPacksPerBlock,
                                         Count{l.shape.num_multiprocessors} * kBlocksPerMultiprocessor);
    const RowIdsChunk chunk{l.ids.data + begin, l.ids.first, static_cast<std::uint32_t>(rows)};
    gather_rows<Element, kWidth><<<static_cast<unsigned>(blocks), kThreads, 0, l.stream.get()>>>(
        l.table, chunk, static_cast<std::uint32_t>(packs_a_row), l.out + begin * l.shape.cols);
    cuda::check_launch("gather_rows");
  }
}

/// Rows begin at multiples of their size in memory that is aligned to 256 bytes, so a load of kWidth elements
/// is aligned where kWidth divides the columns; its store also needs the output to be.
template <typename Element, int kWidth>
bool fits(const Launch& l) {
  const std::size_t store_alignment = std::min<std::size_t>(16, kWidth * sizeof(float));
  return l.shape.cols % kWidth == 0 && reinterpret_cast<std::uintptr_t>(l.out) % store_alignment == 0;
}

template <typename Element>
void launch_widest(const Launch& l) {
  if constexpr (sizeof(Element) == 2) {
    if (fits<Element, 8>(l)) return launch<Element, 8>(l);
  }
  if (fits<Element, 4>(l)) return launch<Element, 4>(l);
  if (fits<Element, 2>(l)) return launch<Element, 2>(l);
  launch<Element, 1>(l);
}

}  // namespace

void gather_on_gpu(const GatherTable& table, const GatherShape& shape, const RowIds& ids, float* out,
                   const cuda::Stream& stream) {
  if (ids.size == 0 || shape.cols == 0) return;
  const cuda::DeviceGuard guard(stream.device());
  const Launch l{table, shape, ids, out, stream};
  switch (shape.dtype) {
    case DType::f32:
      return launch_widest<float>(l);
    case DType::f16:
      return launch_widest<__half>(l);
    case DType::bf16:
      return launch_widest<__nv_bfloat16>(l);
    case DType::f64:
      return launch<double, 1>(l);
    case DType::i8:
      return launch<std::int8_t, 1>(l);
    case DType::u8:
      return launch<std::uint8_t, 1>(l);
    case DType::i32:
      return launch<std::int32_t, 1>(l);
    case DType::i64:
      return launch<std::int64_t, 1>(l);
  }
}

}  // namespace strata::store
