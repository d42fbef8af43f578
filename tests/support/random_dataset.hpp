// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/graph/part_file.hpp"

namespace strata::test {

struct DatasetOptions {
  Count num_nodes = 500, num_edges = 4000, feature_cols = 7;
  DType feature_dtype = DType::f32;
  Count num_classes = 5;
  bool with_labels = true;
  bool label_sets = false;  ///< nodes may have several classes
  Count num_clusters = 0;   ///< of each part: a node is in that of its original id modulo the number
  std::uint64_t seed = 1;
};

/// A random graph with edge weights, features, labels (some missing) and splits; self-loops and parallel
/// edges occur.
std::unique_ptr<graph::Graph> random_dataset(const DatasetOptions& options);

/// The features as floats, row-major.
std::vector<float> features_as_floats(const graph::Graph& graph);

/// Random values of any type that f32 holds without error, and the same as floats.
struct RandomValues {
  std::vector<std::byte> bytes;
  std::vector<float> floats;
};
RandomValues random_values(Count count, DType dtype, std::uint64_t seed);

/// Cuts a graph into parts at random, nodes of a part in random order, and writes them. An owner of the
/// directory.
class PartitionedDataset {
 public:
  PartitionedDataset(const graph::Graph& graph, int num_parts, const std::filesystem::path& directory,
                     std::uint64_t seed, Count num_clusters = 0);
  ~PartitionedDataset();
  PartitionedDataset(const PartitionedDataset&) = delete;
  PartitionedDataset& operator=(const PartitionedDataset&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  const graph::Manifest& manifest() const { return manifest_; }
  NodeId original_of(NodeId global) const { return original_of_[at(global)]; }

 private:
  void relabel(int num_parts, std::uint64_t seed);
  graph::PartData part_data(const graph::Graph& graph, int part) const;

  std::filesystem::path directory_;
  graph::Manifest manifest_;
  std::vector<NodeId> original_of_, global_of_;
};

}  // namespace strata::test
