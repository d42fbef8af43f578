// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "strata/comm/machine.hpp"
#include "strata/placement/planner.hpp"

namespace strata::placement {

/// Tables that the rates are measured with.
struct ScratchTables {
  int threads = 0;  ///< GatherSettings::threads
  std::int64_t gpu_bytes = std::int64_t{384}
                           << 20;  ///< on each GPU, well beyond its caches; less where memory is short
  std::int64_t host_bytes = std::int64_t{64} << 20;  ///< of the machine
  /// Of the machine, for CPU threads: beyond their caches; less where memory is short.
  std::int64_t threads_bytes = std::int64_t{5} << 28;
};

/// Rates for rows of one length, of small tables.
struct MeasuredPaths {
  PathRates rates;          ///< the host's by zero copy
  double host_threads = 0;  ///< the host's by CPU threads alone; 0 where they are too few
  double host_both = 0;     ///< by threads and zero copy together, where no translation is missing
  double host_start = 0;    ///< seconds before their first rows arrive
};

/// Gathers random rows of each length from small tables in every stratum, all GPUs of the machine at once, as
/// the stages of training will; the least rates over the ranks. Peer rates are 0 on one GPU and where the
/// GPUs cannot reach each other. Takes some 0.1 s a length. On a machine without GPUs it measures the cpu.
/// Collective over the machine.
std::vector<MeasuredPaths> measure_path_rates(const comm::Machine& machine,
                                              std::span<const std::int64_t> row_bytes,
                                              const ScratchTables& tables = {});

/// How the rows of a table are laid out and read.
struct RowLayout {
  bool padded = false;        ///< TensorSpec::padded
  bool aligned_reads = true;  ///< GatherSettings::aligned_reads
};

/// Useful bytes a second of random host rows by zero copy; the least over the ranks.
struct LayoutRates {
  double as_they_lie = 0;  ///< neither padded nor read in aligned pieces
  double aligned = 0, padded = 0;
};

/// Do rows of this length cross more lines of 128 bytes than they fill, so that their layout matters?
constexpr bool layout_matters(std::int64_t row_bytes) { return row_bytes > 128 && row_bytes % 128 != 0; }

/// From small tables, all GPUs of the machine at once. Takes some 0.1 s. Collective over the machine.
LayoutRates measure_layouts(const comm::Machine& machine, std::int64_t row_bytes,
                            const ScratchTables& tables = {});

/// The fastest, but padding, which takes memory, only where it gains a tenth.
RowLayout best_layout(const LayoutRates& rates);

/// How long a GPU takes to gather random rows of a host table: start_seconds + bytes / bytes_per_second.
struct HostRate {
  double bytes_per_second = 0;
  double start_seconds = 0;
};

/// GPUs translate addresses of at most about 30 million distinct 64-KiB granules a second (measured), and
/// each random row of a large table is in another one; CPU threads know no such limit. Where both work at
/// once their rates add up, as far as the link was measured to go.
HostRate host_rate_of_table(const MeasuredPaths& measured, std::int64_t row_bytes, std::int64_t table_bytes,
                            tensor::HostPath path = tensor::HostPath::automatic);

}  // namespace strata::placement
