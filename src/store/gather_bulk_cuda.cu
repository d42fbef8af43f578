#include <algorithm>

#include "gather_bulk_cuda.hpp"
#include "row_access_cuda.cuh"
#include "strata/cuda/check.cuh"

// Bulk copies (cp.async.bulk) with mbarriers as the PTX manual describes them, sections "Data Movement and
// Conversion Instructions: Asynchronous copy" and "Parallel Synchronization: mbarrier".
namespace strata::store {
namespace {

constexpr int kWarps = 8;  // of a block; each works alone
constexpr int kTiles = 3;  // of a warp: one is filled, one waits to be stored, one drains
constexpr int kTileBytes = 8192;
constexpr int kSharedBytes = kWarps * kTiles * kTileBytes;
constexpr Count kMinRowBytes = 512;  // shorter rows are faster through registers
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
__device__ unsigned shared_address(const void* data) {
  return static_cast<unsigned>(__cvta_generic_to_shared(data));
}

__device__ void init_barrier(std::uint64_t* barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}
__device__ void expect_bytes(std::uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ void wait_barrier(std::uint64_t* barrier, unsigned phase) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(phase)
                 : "memory");
  }
}
__device__ void load_bulk(std::byte* shared, const std::byte* global, unsigned bytes,
                          std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
__device__ void store_bulk(std::byte* global, const std::byte* shared, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
}
__device__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void wait_reads_of_all_but_one() { asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); }
__device__ void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ void publish_shared_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// What one warp does: tiles `warp`, `warp + warps`, ... of the list, each of up to 32 rows.
struct Walker {
  const RowTable& table;
  const RowList& list;
  Entries entries;
  unsigned rows_a_tile;
  std::byte* out;
  std::byte* tiles;         // [kTiles][kTileBytes] in shared memory
  std::uint64_t* barriers;  // [kTiles]
  unsigned lane;

  __device__ unsigned rows_of(Count tile) const {
    const Count left = Count{entries.rows} - tile * rows_a_tile;
    return static_cast<unsigned>(min(left, Count{rows_a_tile}));
  }
  __device__ std::byte* slot(unsigned index) const { return tiles + index * kTileBytes; }

  __device__ void load(Count tile, unsigned index) const {
    const unsigned rows = rows_of(tile), bytes = static_cast<unsigned>(table.row_bytes);
    std::byte* target = slot(index) + lane * bytes;
    Count row = -1;
    if (lane < rows) row = row_of(table, list, entries.first + tile * rows_a_tile + lane, true);
    const unsigned present = __ballot_sync(kAllLanes, row >= 0);
    if (lane < rows && row < 0) {
      for (unsigned b = 0; b < bytes; b += sizeof(uint4)) *reinterpret_cast<uint4*>(target + b) = uint4{};
      publish_shared_writes();
    }
    __syncwarp();
    if (lane == 0) expect_bytes(&barriers[index], static_cast<unsigned>(__popc(present)) * bytes);
    __syncwarp();
    if (row >= 0)
      load_bulk(target, table.replicated + location_of(table, row).row * table.row_pitch, bytes,
                &barriers[index]);
  }

  /// One copy where the rows lie one after the other in the output, which they do without positions.
  __device__ void store(Count tile, unsigned index, Count out_pitch) const {
    const unsigned rows = rows_of(tile), bytes = static_cast<unsigned>(table.row_bytes);
    const Count entry = entries.first + tile * rows_a_tile;
    if (list.positions == nullptr && out_pitch == table.row_bytes) {
      if (lane == 0) store_bulk(out + entry * out_pitch, slot(index), rows * bytes);
    } else if (lane < rows) {
      store_bulk(out + position_of(list, entry + lane) * out_pitch, slot(index) + lane * bytes, bytes);
    }
    commit_stores();
  }
};
#endif

__global__ void __launch_bounds__(kWarps * 32)
    gather_tiles(const __grid_constant__ RowTable table, const __grid_constant__ RowList list, Piece piece,
                 unsigned rows_a_tile, Count out_pitch, std::byte* out) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::byte shared[];
  __shared__ __align__(8) std::uint64_t barriers[kWarps][kTiles];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) {
    for (int t = 0; t < kTiles; ++t) init_barrier(&barriers[warp][t]);
    publish_barriers();
  }
  __syncwarp();
  const Entries entries = entries_of(list, piece);
  const Walker walker{table,          list, entries, rows_a_tile, out, shared + warp * kTiles * kTileBytes,
                      barriers[warp], lane};
  const Count num_tiles = (Count{entries.rows} + rows_a_tile - 1) / rows_a_tile;
  const Count first = Count{blockIdx.x} * kWarps + warp, step = Count{gridDim.x} * kWarps;
  for (unsigned t = 0; t + 1 < kTiles; ++t)
    if (first + t * step < num_tiles) walker.load(first + t * step, t);
  unsigned index = 0, phase = 0;
  for (Count tile = first; tile < num_tiles; tile += step) {
    wait_barrier(&walker.barriers[index], phase);
    walker.store(tile, index, out_pitch);
    wait_reads_of_all_but_one();  // the slot before this one has been read
    __syncwarp();
    const Count next = tile + (kTiles - 1) * step;
    if (next < num_tiles) walker.load(next, (index + kTiles - 1) % kTiles);
    if (++index == kTiles) {
      index = 0;
      phase ^= 1;
    }
  }
  wait_stores();
#endif
}

}  // namespace

bool has_bulk_copies(Device device) {
  int major = 0;
  cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index),
              "cudaDeviceGetAttribute");
  return major >= 9;
}

bool can_bulk(const RowTable& table, const RowFormat& format, const void* out) {
  constexpr Count kUnit = 16;
  const Count out_pitch = format.out_pitch * static_cast<Count>(size_of(format.out));
  return format.stored == format.out && table.row_bytes >= kMinRowBytes && table.row_bytes <= kTileBytes &&
         table.row_bytes % kUnit == 0 && table.row_pitch % kUnit == 0 && out_pitch % kUnit == 0 &&
         reinterpret_cast<std::uintptr_t>(out) % kUnit == 0;
}

void gather_bulk(const RowTable& table, const RowList& list, const RowFormat& format, void* out,
                 const LaunchShape& shape, const cuda::Stream& stream) {
  const auto rows_a_tile = static_cast<unsigned>(std::min<Count>(32, kTileBytes / table.row_bytes));
  const Count out_pitch = format.out_pitch * static_cast<Count>(size_of(format.out));
  cuda::check(cudaFuncSetAttribute(gather_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
              "cudaFuncSetAttribute");
  for_each_piece(list.bound, 1, [&](Piece piece) {
    const Count tiles = (piece.rows + rows_a_tile - 1) / rows_a_tile;
    const Count blocks = std::clamp<Count>((tiles + kWarps - 1) / kWarps, 1, shape.multiprocessors);
    gather_tiles<<<static_cast<unsigned>(blocks), kWarps * 32, kSharedBytes, stream.get()>>>(
        table, list, piece, rows_a_tile, out_pitch, static_cast<std::byte*>(out));
    cuda::check_launch("gather_tiles");
  });
}

}  // namespace strata::store
