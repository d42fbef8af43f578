// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "gather.hpp"
#include "host_path/host_job.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/stream.hpp"

/// What the GPU does in a job of the host stratum, besides gather_on_gpu().
namespace strata::tensor {

/// How a job's entries are divided, in device memory: the kernel gets [begin, middle), the threads [middle,
/// end). If rows are sorted, the hottest first, the kernel so gets those that lie densely.
struct Split {
  Count begin, middle, end;
  Count kernel_rows;              ///< middle - begin
  unsigned long long next_chunk;  ///< next chunk of the threads' rows to drain
};

struct SplitRule {
  static constexpr Count kUnit = Count{1} << 20;
  Count threads_share = 0;  ///< in units
  Count least_rows = 0;     ///< the kernel takes all of a job with fewer

  STRATA_HOST_DEVICE Count threads_rows(Count rows) const {
    return rows < least_rows ? 0 : (rows * threads_share) / kUnit;
  }
};

/// Divides the entries of a list whose ends may be on the device. Rings the doorbell of `job` if it has one,
/// and also writes the result to `record` in pinned memory if that is not null. This and all functions below
/// are asynchronous on `stream`.
void split_list(const RowList& list, const SplitRule& rule, const HostJob& job, Split* split, Split* record,
                const cuda::Stream& stream);

/// Writes the numbers of the threads' rows into pinned memory, chunk by chunk.
void export_numbers(const RowTable& table, const RowList& list, const HostJob& job, const Split* split,
                    const cuda::Stream& stream);

/// Writes the rows that the threads gather to the output. Its blocks wait for the threads, so launch it after
/// everything that the threads wait for. `num_rows` are those of the host stratum. REQUIRES: format.out_pitch
/// is not 0.
void drain_ring(const HostJob& job, const RowGather& gather, Count num_rows, Split* split,
                const cuda::Stream& stream);

/// Sorts the kernel's entries by where their rows lie, so that few addresses are translated more than once.
/// An owner of its scratch memory.
class RowSorter {
 public:
  RowSorter(Device device, const RowTable& table);
  bool has_room(Count bound) const;
  void reserve(Count bound);  ///< allocates; no sort may be in flight
  /// The kernel's entries, at most `bound`, as a list of row numbers with positions; valid until the next
  /// sort. Ids out of range are noted in table.bad.
  RowList sort(const RowTable& table, const RowList& list, const Split* split, Count bound,
               const cuda::Stream& stream);

 private:
  template <typename Number>
  RowList sort_as(const RowTable& table, const RowList& list, const Split* split, Count bound,
                  const cuda::Stream& stream);
  std::size_t temporary_bytes(Count bound) const;

  Device device_;
  bool wide_;
  int begin_bit_ = 0, end_bit_ = 0;
  Count capacity_ = 0;
  cuda::Buffer keys_[2], temporary_;
  cuda::Array<std::uint32_t> positions_[2];
};

/// Whether row numbers of the table take 64 bits. In 32 bits, -1 must be no row number, read as signed or
/// unsigned.
inline bool has_wide_numbers(const RowTable& table) { return table.rows > Count{0x7FFFFFFF}; }

}  // namespace strata::tensor
