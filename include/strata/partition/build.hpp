// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/graph/stored_graph.hpp"
#include "strata/partition/assign.hpp"
#include "strata/partition/stop.hpp"

namespace strata::partition {

struct BuildOptions {
  std::filesystem::path output;
  AssignOptions assign{};
  DType feature_dtype = DType::f32;  ///< f32, f16 or bf16; without effect where there is a code
  bool force = false;                ///< replace an existing partition directory
  /// More are refused, because one wrong label would make a model with that many outputs.
  Count max_classes = 100'000;
  int num_threads = 0;  ///< 0: all cores of this process
  std::string input{};  ///< as the user named it; for the manifest
  /// Called after everything is written and before it appears: an exception from it ends the build.
  std::function<void()> before_publishing{};
  bool detailed = false;  ///< count what only pages about a partition show, too
  /// Compressed features: the kind, and the codebooks of vq if they are given. The build trains those that
  /// are missing on a sample of rows that depends on AssignOptions::seed.
  RowCode feature_code{};
};

/// The cost of one phase of a build.
struct Phase {
  std::string name;
  double seconds = 0;
  double cpu_seconds = 0;       ///< of all threads
  std::int64_t peak_bytes = 0;  ///< peak resident memory of the process until the phase ended
};

/// Measures consecutive phases.
class PhaseClock {
 public:
  /// Ends the phase that began when the clock was made or end() was last called.
  Phase end(std::string name);

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::clock_t cpu_start_ = std::clock();
};

struct BuildReport {
  graph::PartitionRecord record;
  std::vector<Phase> phases;
  /// Edges by [part of the destination][part of the source] if detailed, for at most kMostPartsBetween parts.
  std::vector<Count> edges_between{};
  /// Nodes without in-neighbors, then those with [2^i, 2^(i + 1)) for each i, if detailed.
  std::vector<Count> degree_histogram{};

  static constexpr int kMostPartsBetween = 1024;
};

/// The file for the names of nodes that are not named by their numbers: "parts.ids.txt".
std::filesystem::path names_file(const std::filesystem::path& output);

/// Throws InputError for errors that show before anything is read: an output that exists, a parent folder
/// that cannot be written, a device that is not there.
void check_output(const BuildOptions& options);

/// Throws InputError if the names of nodes would replace a file without options.force, or something else.
void check_names_file(const BuildOptions& options);

/// Partitions `graph` and publishes options.output atomically: the folder holds a whole partition, or what it
/// held before.
///
/// Consumes the graph piece by piece. Throws InputError, IoError, OutOfMemory or Stopped, and leaves nothing
/// behind then.
BuildReport build(graph::Graph graph, const BuildOptions& options, StopFlag& stop);

/// The same for a graph that has its edges in scratch files, so that no memory grows with the edges. Its
/// parts equal those in memory where these need neither METIS nor the local search on the whole graph.
BuildReport build(graph::StoredGraph graph, const BuildOptions& options, ScratchStore& scratch,
                  StopFlag& stop);

}  // namespace strata::partition
