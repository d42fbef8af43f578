// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/placement/planner.hpp"

namespace strata::placement {

/// The tables that rates are measured with.
struct ScratchTables {
  int threads = 0;  ///< GatherSettings::threads
  std::int64_t gpu_bytes = std::int64_t{384}
                           << 20;  ///< on each GPU, well beyond its caches; less where memory is short
  std::int64_t host_bytes = std::int64_t{64} << 20;  ///< of the machine
  /// On the machine, for CPU threads. Well beyond their caches; less if memory is short.
  std::int64_t threads_bytes = std::int64_t{5} << 28;
};

/// Rates for rows of one length in small tables.
struct MeasuredPaths {
  PathRates rates;          ///< of the host rows: by zero copy
  double host_threads = 0;  ///< of host rows by only CPU threads; 0 if there are too few
  double host_both = 0;     ///< by threads and zero copy together, without misses of address translation
  double host_start = 0;    ///< seconds before their first rows arrive
};

/// Measures gathers of random rows of each length from small tables in every stratum. All GPUs of the machine
/// gather at once, as the stages of training will, and the results are the least rates of all ranks. Peer
/// rates are 0 on one GPU and where GPUs cannot reach each other. Takes about 0.1 s per length. On a machine
/// without GPUs it measures the cpu. Collective over the machine.
std::vector<MeasuredPaths> measure_path_rates(const comm::Machine& machine,
                                              std::span<const std::int64_t> row_bytes,
                                              const ScratchTables& tables = {});

/// How the rows of a table are laid out and read.
struct RowLayout {
  bool padded = false;        ///< TensorSpec::padded
  bool aligned_reads = true;  ///< GatherSettings::aligned_reads
};

/// Useful bytes per second of random host rows by zero copy; the least of all ranks.
struct LayoutRates {
  double as_they_lie = 0;  ///< neither padded nor read in aligned pieces
  double aligned = 0, padded = 0;
};

/// Whether rows of this length touch more lines of 128 bytes than they fill, so that their layout matters.
constexpr bool layout_matters(std::int64_t row_bytes) { return row_bytes > 128 && row_bytes % 128 != 0; }

/// Measures rows in small tables, on all GPUs of the machine at once. Takes about 0.1 s. Collective over the
/// machine.
LayoutRates measure_layouts(const comm::Machine& machine, std::int64_t row_bytes,
                            const ScratchTables& tables = {});

/// The fastest layout. Padding takes memory, so it must be a tenth faster than the others to be chosen.
RowLayout best_layout(const LayoutRates& rates);

/// How long a GPU takes to gather random rows of a host table: start_seconds + bytes / bytes_per_second.
struct HostRate {
  double bytes_per_second = 0;
  double start_seconds = 0;
};

/// The rate for a table of this size, along this path. A GPU translates addresses of at most about 30 million
/// distinct 64-KiB granules per second (measured), and each random row of a large table lies in another
/// granule; CPU threads have no such limit. If both work at once their rates add up, but not beyond the rate
/// that was measured for the link.
HostRate host_rate_of_table(const MeasuredPaths& measured, std::int64_t row_bytes, std::int64_t table_bytes,
                            tensor::HostPath path = tensor::HostPath::automatic);

}  // namespace strata::placement
