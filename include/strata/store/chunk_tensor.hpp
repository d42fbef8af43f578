#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/cuda/runtime.hpp"
#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

namespace strata::store {

struct TensorSpec {
  std::string name;  ///< for messages: "features"
  Count rows = 0;
  Count cols = 1;
  DType dtype = DType::f32;

  std::size_t row_bytes() const { return static_cast<std::size_t>(cols) * size_of(dtype); }
};

/// Where the rows of one segment (a hosted part) lie. The hottest rows come first.
struct Segment {
  Count replicated = 0;  ///< on every GPU of the machine
  Count striped = 0;     ///< row-cyclic over the GPUs of the machine
  Count host = 0;        ///< in host memory that all ranks of the machine share, registered with CUDA

  Count rows() const { return replicated + striped + host; }
};

struct Placement {
  std::vector<Segment> segments;  ///< their rows add up to the tensor's
  Count stripe_rows = 64;         ///< rows of a stripe block

  static Placement on_host(Count rows) { return {.segments = {{.host = rows}}}; }
  static Placement replicated(Count rows) { return {.segments = {{.replicated = rows}}}; }
};

/// Ids of rows to gather. `size` ids; -1 asks for a row of zeros.
struct RowIds {
  const NodeId* data = nullptr;  ///< on the device of the stream
  Count size = 0;
  NodeId first = 0;  ///< subtracted from every id but -1: lets global ids address a machine's rows
};

/// A tensor whose rows lie in the memory of a whole machine. An owner of its strata.
///
/// Rows are ordered by heat. On two GPUs, the segment {.replicated = 2, .striped = 4, .host = 2} with
/// stripe_rows = 1 lays eight rows out as
///
///     row      0     1   |  2     3     4     5   |  6     7
///     lies on  both GPUs | gpu0  gpu1  gpu0  gpu1 |  host
///
/// and every rank of the machine reads each of them in place: from its own HBM, over NVLink, or over PCIe. On
/// a machine without GPUs, or without peer access, rows of a missing stratum go to the host stratum and the
/// log says so.
class ChunkTensor {
 public:
  /// Allocates the strata and shares them; contents are undefined. Collective over the machine.
  /// Throws on every rank if one rank fails: OutOfMemory names the tensor, the bytes wanted and free and what
  /// to lower.
  static ChunkTensor create(const comm::Machine& machine, const TensorSpec& spec, const Placement& placement);
  ChunkTensor(ChunkTensor&&) noexcept;
  ChunkTensor& operator=(ChunkTensor&&) noexcept;
  ~ChunkTensor();

  const TensorSpec& spec() const;
  const Placement& placement() const;  ///< as realised

  /// Writes rows [first, first + count) from host memory to wherever they lie; replicated rows on this rank's
  /// GPU only, so every rank writes those. Blocks. Different rows may be written by different threads and
  /// ranks at once. Readers on other ranks see them after machine.barrier().
  void write_rows(Count first, Count count, const void* rows);

  /// out[i] = row(ids[i] - ids.first) as f32, row-major with `spec().cols` columns; rows of zeros for -1.
  ///
  /// On a GPU: asynchronous on `stream`; allocates and synchronises nothing. On the cpu (stream of the cpu):
  /// blocks, runs on `pool`. Thread safe. An id out of range is undefined unless checks are on (see
  /// check_ids).
  void gather(const RowIds& ids, float* out, const cuda::Stream& stream, ThreadPool& pool) const;

  /// Pointer to host row 0 when ALL rows lie in the host stratum of one segment; null otherwise.
  std::byte* host_data() const;

  void close(const comm::Machine& machine);  ///< frees the strata. Collective over the machine

 private:
  struct State;
  explicit ChunkTensor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Host memory shared by the ranks of a machine; an owner of this rank's mapping and registration.
///
/// The segment has no name once create() returned: nothing is left in /dev/shm whatever happens later.
class HostRegion {
 public:
  /// Collective. Zero-filled. Registered with CUDA where the machine has GPUs. Throws OutOfMemory on all
  /// ranks (also when /dev/shm is too small, naming its size and the remedy).
  static HostRegion create(const comm::Machine& machine, std::size_t bytes, const std::string& name);
  HostRegion(HostRegion&&) noexcept;
  HostRegion& operator=(HostRegion&&) noexcept;
  ~HostRegion();
  std::byte* data() const;
  std::size_t bytes() const;

 private:
  struct State;
  explicit HostRegion(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace strata::store
