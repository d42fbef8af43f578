// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strata/batches/node_loader.hpp"

namespace example {

/// The sampled in-neighbors of the nodes that a layer computes: sources are places among the layer's inputs,
/// of which the first num_nodes are those nodes themselves.
struct Hop {
  std::int64_t num_nodes = 0;
  at::Tensor begins;   ///< [num_nodes + 1]
  at::Tensor sources;  ///< [edges]
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(num_nodes, begins, sources);
  }
};

/// A minibatch on its way through the layers.
struct Rows {
  at::Tensor values;      ///< [nodes, columns], seeds first
  std::vector<Hop> hops;  ///< of the layers that are still to come
  at::Tensor labels;      ///< [seeds]

  Rows to(at::Device device) const;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(values, hops, labels);
  }
};

struct SamplerOptions {
  std::string graph;  ///< parts, or another source that strata-train takes
  std::vector<int> fanouts;
  std::int64_t batch_size = 512;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(graph, fanouts, batch_size);
  }
};

struct GraphShape {
  std::int64_t features = 0, classes = 0;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(features, classes);
  }
};

/// A graph in the memory of one rank, and batches of its nodes. Calls come one at a time.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  GraphShape shape() const;
  /// Begins to sample; returns the number of batches.
  std::int64_t begin(strata::batches::Split split, std::uint32_t epoch);
  Rows next(strata::batches::Split split);

 private:
  strata::comm::World alone_;
  std::shared_ptr<strata::batches::Runtime> runtime_;
  std::shared_ptr<strata::batches::Graph> graph_;
  std::map<strata::batches::Split, std::unique_ptr<strata::batches::NodeLoader>> loaders_;
};

}  // namespace example
