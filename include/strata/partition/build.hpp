// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/partition/assign.hpp"
#include "strata/partition/stop.hpp"

namespace strata::partition {

struct BuildOptions {
  std::filesystem::path output;
  AssignOptions assign{};
  DType feature_dtype = DType::f32;  ///< f32, f16 or bf16
  bool force = false;                ///< replace an existing partition directory
  Count max_classes = 100'000;  ///< more are refused: one wrong label would make a model of that many outputs
  int num_threads = 0;          ///< 0: all cores of this process
  std::string input{};          ///< as the user named it; for the record
};

/// What one phase of a build took.
struct Phase {
  std::string name;
  double seconds = 0;
  double cpu_seconds = 0;       ///< of all threads
  std::int64_t peak_bytes = 0;  ///< most resident memory of the process until its end
};

/// Measures phases that follow each other.
class PhaseClock {
 public:
  /// The phase since the clock was made or last asked.
  Phase end(std::string name);

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::clock_t cpu_start_ = std::clock();
};

struct BuildReport {
  graph::PartitionRecord record;
  std::vector<Phase> phases;
};

/// Refuses what can be refused before anything is read: an output that exists, a parent that cannot be
/// written. Throws InputError.
void check_output(const BuildOptions& options);

/// Partitions `graph` and publishes options.output atomically: it holds a whole partition, or what it held
/// before.
///
/// Consumes the graph piece by piece. Throws InputError, IoError, OutOfMemory, Stopped; none leaves anything
/// behind.
BuildReport build(graph::Graph graph, const BuildOptions& options, StopFlag& stop);

}  // namespace strata::partition
