// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "strata/tensor/placement.hpp"

namespace strata::comm {
class Machine;
}

namespace strata::tensor {

/// The tables that rates are measured with.
struct ScratchTables {
  int threads = 0;  ///< GatherSettings::threads
  std::int64_t gpu_bytes = std::int64_t{384}
                           << 20;  ///< on each GPU, well beyond its caches; less where memory is short
  std::int64_t host_bytes = std::int64_t{64} << 20;  ///< of the machine
  /// On the machine, for CPU threads. Well beyond their caches; less if memory is short.
  std::int64_t threads_bytes = std::int64_t{5} << 28;
};

/// How long it takes to gather random rows of one level: start_seconds + bytes / bytes_per_second.
struct PathRate {
  double bytes_per_second = 0;  ///< useful bytes; 0: the level cannot be read, and no plan uses it
  double start_seconds = 0;
};

/// How fast one GPU reads each level while all of them read, for rows of one length: its own memory
/// (replicated rows), other GPUs (striped rows), the host.
using PathRates = ByStratum<PathRate>;

/// Rates for rows of one length in small tables.
struct MeasuredPaths {
  std::int64_t row_bytes = 0;
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

/// Useful bytes per second of random host rows by zero copy; the least of all ranks.
struct LayoutRates {
  double as_they_lie = 0;  ///< neither padded nor read in aligned pieces
  double aligned = 0, padded = 0;
};

/// Measures rows in small tables, on all GPUs of the machine at once. Takes about 0.1 s. Collective over the
/// machine.
LayoutRates measure_layouts(const comm::Machine& machine, std::int64_t row_bytes,
                            const ScratchTables& tables = {});

}  // namespace strata::tensor
