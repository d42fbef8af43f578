// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/cuda/stream.hpp"
#include "strata/tensor/placement.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

/// What the operations of a ChunkTensor read and write. All of these types are views.
namespace strata::tensor {

/// Ids of rows, on the device of the operation's stream.
///
/// The id `first + r` names row r. -1 names no row: a gather writes zeros for it, and a scatter skips it. An
/// id out of range is treated like -1, unless ChunkTensor::check_ids() makes it an error.
struct RowIds {
  const void* data = nullptr;  ///< [size] i64, or i32 where `wide` is false
  Count size = 0;              ///< upper bound of the number of ids
  NodeId first = 0;            ///< lets global ids address a machine's rows
  bool wide = true;
  /// Whether the ids ascend, or are a few ascending runs one after the other. This spares the host stratum a
  /// sort and never changes the result.
  bool sorted = false;
  /// How many of the ids count, on the device, too; null: all. The output rows beyond them stay untouched.
  const Count* count = nullptr;
};

/// Where gathered rows go: row i begins at element i * pitch.
struct RowsOut {
  void* data = nullptr;  ///< on the device of the stream, aligned to its elements
  DType dtype = DType::f32;
  Count pitch = 0;  ///< in elements; 0: those of a row
};

/// Where scattered rows come from, in the tensor's type.
struct RowsIn {
  const void* data = nullptr;  ///< on the device of the stream
  Count pitch = 0;             ///< in elements; 0: the tensor's columns
};

/// Rows in a tensor's code, and the output rows where they belong.
struct CodedRows {
  const void* rows = nullptr;  ///< [count, row_bytes], aligned to 4; readable by the stream's device
  const std::int32_t* positions = nullptr;  ///< [count], readable by it, too; -1: none
  Count count = 0;
};

/// Types that a gather can write for rows of `stored`: the same, f32 for all, bf16 (rounded to nearest even)
/// for f32 and f16.
constexpr bool can_gather(DType stored, DType out) {
  return stored == out || out == DType::f32 ||
         (out == DType::bf16 && (stored == DType::f32 || stored == DType::f16));
}

/// The distinct GPUs of a machine. The GPUs that its ranks drive come first, in order of the lowest rank that
/// drives each; GPUs that no rank drives follow if they were asked for.
struct GpuMap {
  struct Gpu {
    int owner;  ///< the rank that allocates on it
    int index;  ///< its CUDA ordinal in the owner's process
  };
  std::vector<Gpu> gpus;
  int mine = -1;  ///< index in `gpus` of this rank's GPU; -1: none

  int size() const { return static_cast<int>(gpus.size()); }
};

/// The GPUs of a machine; none if one of its ranks computes on the cpu. Collective over the machine.
/// `with_idle` adds the GPUs that a rank sees and no rank drives; the lowest rank that sees one owns it. Ask
/// for them only on a machine that has its host for itself, because ranks of another machine may drive them.
GpuMap gpus_of(const comm::Machine& machine, bool with_idle = false);

/// Bytes that a rank may place on its GPU. The ranks that drive one GPU divide its `budget` bytes. The result
/// is the least of the machine, so that its ranks plan alike; it is 0 if one of them computes on the cpu.
/// Collective over the machine.
std::int64_t gpu_budget(const comm::Machine& machine, std::int64_t budget);

/// Rows that lie one after the other in one memory; a view.
struct StratumView {
  Stratum stratum = Stratum::host;
  Device device;  ///< cpu for host rows
  std::byte* data = nullptr;
  Count rows = 0;
  std::size_t row_pitch = 0;  ///< bytes
};

/// What the gathers of a tensor may use. 0 and `automatic` choose values that measurements showed to be good.
struct GatherSettings {
  HostPath host_path = HostPath::automatic;
  /// CPU threads of this rank for `threads` and `both`. 0: three quarters of the rank's share of the cores,
  /// because the stages need the others.
  int threads = 0;
  /// Share of the host rows that `both` gives to the threads; 0: measured at the first gather.
  double threads_share = 0;
  /// Most SMs of the GPU that a gather uses; 0: what is best for the tensor's strata.
  int multiprocessors = 0;
  bool aligned_reads = true;  ///< read long rows that lie off this GPU in pieces aligned to 128 bytes
};

/// Keeps the rows of Stratum::storage, in a file for example: row_bytes() each, numbered within the level.
/// All ranks of the machine see the same rows.
class RowStorage {
 public:
  virtual ~RowStorage() = default;
  /// Rows [first, first + count). Called by several threads at once, for different rows.
  virtual void write(Count first, Count count, const std::byte* rows) = 0;
  virtual void read(Count first, Count count, std::byte* rows) const = 0;
};

/// A tensor whose rows lie in the memory of a whole machine. An owner of its strata.
///
/// Rows are ordered by heat. On two GPUs, the segment {{replicated, 2}, {striped, 4}, {host, 2}} with
/// stripe_rows = 1 lays eight rows out as
///
///     row      0     1   |  2     3     4     5   |  6     7
///     lies on  both GPUs | gpu0  gpu1  gpu0  gpu1 |  host
///
/// and every rank of the machine reads each of them in place: from its own HBM, over NVLink, or over PCIe. On
/// a machine without GPUs, or without peer access, the rows of a stratum that cannot exist go to the host
/// stratum, which is logged.
class ChunkTensor {
 public:
  /// Allocates the strata and shares them among the ranks of the machine; the contents are undefined.
  /// Collective over the machine. Throws on every rank if one rank fails: OutOfMemory names the tensor, the
  /// bytes wanted and free, and what to lower. `storage` keeps the rows of Stratum::storage, which ranks with
  /// a GPU cannot read.
  static ChunkTensor create(const comm::Machine& machine, const TensorSpec& spec, const Placement& placement,
                            std::shared_ptr<RowStorage> storage = nullptr);
  /// A tensor over rows that the caller has: [spec.rows, spec.cols], row-major, in host memory. They are
  /// registered in place if `device` is a GPU, and `keep_alive` is held as long as the tensor lives. The
  /// tensor belongs to this rank only; not collective. Throws CudaError with the remedy if registration
  /// fails.
  static ChunkTensor wrap(Device device, const TensorSpec& spec, void* rows,
                          std::shared_ptr<const void> keep_alive);
  ChunkTensor(ChunkTensor&&) noexcept;
  ChunkTensor& operator=(ChunkTensor&&) noexcept;
  ~ChunkTensor();

  const TensorSpec& spec() const;
  const Placement& placement() const;  ///< as realised
  /// The memory that this rank has at hand: its replicated rows, its share of the stripes, and the machine's
  /// host rows. Valid until close(). Rows within a view are in the order of the stratum.
  std::vector<StratumView> views() const;

  /// The settings take effect at the next gather. Not thread safe. Throws InputError for a value out of
  /// range.
  void configure(const GatherSettings& settings);
  const GatherSettings& settings() const;  ///< as chosen

  /// Writes rows [first, first + count) to wherever they lie, from `rows` in host memory or on this rank's
  /// GPU. Replicated rows are written to this rank's GPU only, so every rank must write those. Blocks.
  /// Different threads and ranks may write different rows at once. Readers on other ranks see them after
  /// fence().
  void write_rows(Count first, Count count, const void* rows);
  /// Reads rows [first, first + count) into host memory. Blocks. Thread safe.
  void read_rows(Count first, Count count, void* rows) const;
  /// Sets every element to `value` converted to the tensor's type. Collective over the machine; ends with a
  /// fence.
  void fill(const comm::Machine& machine, double value, ThreadPool& pool);

  /// out[i] = row(ids[i]), converted to out.dtype; zeros for -1. A 1-D tensor has one column.
  ///
  /// On a GPU: asynchronous on `stream`. Only the first gather along a HostPath with threads allocates and
  /// synchronises. On the cpu (a stream of the cpu): blocks, and runs on `pool`. Thread safe on different
  /// streams. Throws Error for a type that can_gather() refuses.
  void gather(const RowIds& ids, const RowsOut& out, const cuda::Stream& stream, ThreadPool& pool) const;
  void gather(const RowIds& ids, float* out, const cuda::Stream& stream, ThreadPool& pool) const {
    gather(ids, RowsOut{.data = out}, stream, pool);
  }

  /// Decodes rows that a gather of a tensor of the same code gave as u8: out[positions[i]] = row i of
  /// `coded`.
  ///
  /// out [>= max position + 1, cols] f32 on the device of the stream
  /// Asynchronous on a GPU; on the cpu it blocks and runs on `pool`. Thread safe. REQUIRES: spec().code.
  void decode(const CodedRows& coded, float* out, const cuda::Stream& stream, ThreadPool& pool) const;

  /// Adds to counts[s], for every Stratum s, how many of the ids name a row of that stratum.
  ///
  /// counts  [kNumStrata]  on the device of the stream
  /// Asynchronous on a GPU. Thread safe.
  void count_strata(const RowIds& ids, Count* counts, const cuda::Stream& stream) const;

  /// row(ids[i]) = in[i]; the ids must be distinct. Asynchronous on a GPU's stream; blocks on the cpu. All
  /// readers of the machine see the rows after fence(). Throws Error for a tensor with replicated rows that
  /// was created without `scatters` on a machine of several ranks.
  void scatter(const RowIds& ids, const RowsIn& in, const cuda::Stream& stream, ThreadPool& pool);

  /// Makes what the ranks wrote and scattered (on `stream`) visible to all of them, CPU and GPU. Collective
  /// over the machine; waits for `stream`.
  void fence(const comm::Machine& machine, const cuda::Stream& stream) const;

  /// Turns the check of ids on or off; it costs one comparison per row. While it is on, verify() waits for
  /// `stream` and throws Error naming the first id out of range that a gather or scatter met since the last
  /// call. On the cpu the operation itself throws.
  void check_ids(bool on);
  void verify(const cuda::Stream& stream) const;

  /// Pointer to row 0 if ALL rows lie in the host stratum, one after the other; else null.
  std::byte* host_data() const;

  /// Calls `fill` with memory for dense rows, into which it writes the rows from `first` on: as many as fit
  /// into `staging`. Only for a tensor with host_data(); see HostRegion::fill. Thread safe for rows that do
  /// not overlap.
  void fill_host_rows(Count first, std::span<std::byte> staging, const std::function<void(std::byte*)>& fill);

  void close(const comm::Machine& machine);  ///< frees the strata; collective over the machine

 private:
  struct State;
  explicit ChunkTensor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace strata::tensor
