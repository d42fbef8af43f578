// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

namespace strata::tensor {

/// What the GPU and the CPU threads share about one job of the host stratum. A view of pinned memory.
///
/// The threads' rows are cut into chunks. Each chunk c passes through three stages, and each stage raises a
/// flag when it is done with the chunk. A flag holds the ticket of the last job that raised it, so flags are
/// never cleared.
///
///     GPU      writes the row numbers to numbers[c * chunk_rows ...]       exported[c] = ticket
///     threads  gather these rows into slot c % num_slots of the ring       filled[c] = ticket
///     GPU      writes the rows to the output; the slot is free again       drained[c] = ticket
struct HostJob {
  std::uint64_t ticket = 0;  ///< 1, 2, ...
  Count chunk_rows = 0;
  std::size_t row_bytes = 0;
  bool wide = false;        ///< row numbers of 64 bits, else of 32
  void* numbers = nullptr;  ///< kNoRow: zeros
  std::uint64_t* doorbell = nullptr;
  std::uint64_t* exported = nullptr;
  std::uint64_t* filled = nullptr;
  std::uint64_t* drained = nullptr;
  std::byte* slots = nullptr;
  std::size_t slot_bytes = 0;
  int num_slots = 0;

  STRATA_HOST_DEVICE Count num_chunks(Count rows) const { return (rows + chunk_rows - 1) / chunk_rows; }
  STRATA_HOST_DEVICE std::byte* slot_of(Count chunk) const {
    return slots + static_cast<std::size_t>(chunk % num_slots) * slot_bytes;
  }
};

/// The value that the GPU writes to the doorbell: how many rows the threads get, and of which job. It is one
/// word, so that it cannot be misread if a later job overwrites that of a job without rows for the threads.
struct DoorbellWord {
  static constexpr int kRowBits = 40;
  static constexpr std::uint64_t kTicketMask = (std::uint64_t{1} << (64 - kRowBits)) - 1;

  std::uint64_t word = 0;

  STRATA_HOST_DEVICE static DoorbellWord of(std::uint64_t ticket, Count rows) {
    return {ticket << kRowBits | static_cast<std::uint64_t>(rows)};
  }
  /// The rows of job `ticket`, or -1 if the job has not rung yet. It is 0 if a later job has rung since,
  /// because that is possible only if this job had no rows.
  STRATA_HOST_DEVICE Count rows_of(std::uint64_t ticket) const {
    const std::uint64_t ahead = ((word >> kRowBits) - ticket) & kTicketMask;
    if (ahead == 0) return static_cast<Count>(word & ((std::uint64_t{1} << kRowBits) - 1));
    return ahead <= kTicketMask / 2 ? 0 : -1;
  }
};

}  // namespace strata::tensor
