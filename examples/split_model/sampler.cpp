// SPDX-License-Identifier: Apache-2.0
#include "sampler.hpp"

#include <ATen/ops/from_blob.h>

#include "strata/comm/backend.hpp"

namespace example {
namespace {

using namespace strata;

/// An array of a batch as a tensor that keeps the batch.
template <typename T>
at::Tensor tensor_of(const std::shared_ptr<const batches::NodeBatch>& batch, const T* values,
                     std::vector<std::int64_t> sizes) {
  return at::from_blob(
      const_cast<T*>(values), sizes, [batch](void*) {}, c10::CppTypeToScalarType<T>::value);
}

Rows rows_of(const std::shared_ptr<const batches::NodeBatch>& batch) {
  Rows rows{.values = tensor_of(batch, batch->features, {batch->num_nodes(), batch->feature_cols}),
            .hops = {},
            .labels = tensor_of(batch, batch->labels, {batch->num_seeds()})};
  for (const sampling::Block& block : batch->sample.blocks)
    rows.hops.push_back({.num_nodes = block.num_dst,
                         .begins = tensor_of(batch, block.indptr, {block.num_dst + 1}),
                         .sources = tensor_of(batch, block.indices, {block.num_edges}).to(at::kLong)});
  return rows;
}

}  // namespace

Rows Rows::to(at::Device device) const {
  Rows moved{.values = values.to(device), .hops = hops, .labels = labels.to(device)};
  for (Hop& hop : moved.hops) {
    hop.begins = hop.begins.to(device);
    hop.sources = hop.sources.to(device);
  }
  return moved;
}

Sampler::Sampler(const SamplerOptions& options)
    : alone_(comm::solo_backend()),
      runtime_(std::make_shared<batches::Runtime>(
          alone_, comm::TopologyOptions{.compute = comm::TopologyOptions::Compute::cpu})),
      graph_(batches::Graph::load(runtime_, graph::Source(options.graph), {})) {
  for (const auto split : {batches::Split::train, batches::Split::valid, batches::Split::test}) {
    const batches::NodeLoaderOptions batches{.nodes = split,
                                             .batch_size = options.batch_size,
                                             .shuffle = split == batches::Split::train,
                                             .seed = 1,
                                             .sampler = {.fanouts = options.fanouts}};
    loaders_.emplace(split, std::make_unique<batches::NodeLoader>(graph_, batches));
  }
}

Sampler::~Sampler() {
  for (auto& [split, loader] : loaders_) loader->close();
  graph_->close();
  runtime_->close();
}

GraphShape Sampler::shape() const {
  return {.features = graph_->manifest().feature_cols, .classes = graph_->manifest().num_classes};
}

std::int64_t Sampler::begin(batches::Split split, std::uint32_t epoch) {
  loaders_.at(split)->begin(epoch);
  return loaders_.at(split)->steps_per_epoch();
}

Rows Sampler::next(batches::Split split) { return rows_of(loaders_.at(split)->next(cuda::Stream())); }

}  // namespace example
