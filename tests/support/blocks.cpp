// SPDX-License-Identifier: Apache-2.0
#include "support/blocks.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "strata/util/random.hpp"

namespace strata::test {
namespace {

template <typename T>
at::Tensor tensor_of(const std::vector<T>& values, at::ScalarType type) {
  return at::from_blob(const_cast<T*>(values.data()), {static_cast<std::int64_t>(values.size())},
                       at::TensorOptions().dtype(type))
      .clone();
}

void add_transpose(OwnedBlock& block, const std::vector<std::vector<std::int32_t>>& neighbors) {
  std::vector<std::vector<std::int32_t>> out(at(block.num_src));
  for (std::size_t v = 0; v < neighbors.size(); ++v) {
    for (const std::int32_t u : neighbors[v]) out[at(u)].push_back(static_cast<std::int32_t>(v));
  }
  std::vector<Count> indptr{0};
  std::vector<std::int32_t> indices;
  for (const auto& row : out) {
    indices.insert(indices.end(), row.begin(), row.end());
    indptr.push_back(static_cast<Count>(indices.size()));
  }
  block.transposed_indptr = tensor_of(indptr, at::kLong);
  block.transposed_indices = tensor_of(indices, at::kInt);
}

}  // namespace

sampling::Block OwnedBlock::view() const {
  sampling::Block block;
  if (indptr.is_cuda()) block.device = {Device::Kind::cuda, static_cast<int>(indptr.get_device())};
  block.num_dst = num_dst;
  block.num_src = num_src;
  block.num_edges = indices.numel();
  block.indptr = indptr.const_data_ptr<Count>();
  block.indices = indices.const_data_ptr<std::int32_t>();
  if (transposed_indptr.defined()) {
    block.transposed_indptr = transposed_indptr.const_data_ptr<Count>();
    block.transposed_indices = transposed_indices.const_data_ptr<std::int32_t>();
  }
  block.src_nodes = original_ids.const_data_ptr<NodeId>();
  block.src_original_ids = original_ids.const_data_ptr<NodeId>();
  block.src_in_degrees = in_degrees.const_data_ptr<std::int32_t>();
  return block;
}

OwnedBlock OwnedBlock::to(const c10::Device& device) const {
  OwnedBlock moved = *this;
  for (at::Tensor OwnedBlock::*member :
       {&OwnedBlock::indptr, &OwnedBlock::indices, &OwnedBlock::transposed_indptr,
        &OwnedBlock::transposed_indices, &OwnedBlock::original_ids, &OwnedBlock::in_degrees}) {
    if ((moved.*member).defined()) moved.*member = (moved.*member).to(device);
  }
  return moved;
}

at::Tensor OwnedBlock::edge_dst() const {
  return at::arange(num_dst, indptr.options())
      .repeat_interleave(indptr.slice(0, 1).sub(indptr.slice(0, 0, num_dst)));
}

OwnedBlock block_of(const std::vector<std::vector<std::int32_t>>& neighbors, Count num_src) {
  OwnedBlock block;
  block.num_dst = static_cast<Count>(neighbors.size());
  block.num_src = num_src;
  std::vector<Count> indptr{0};
  std::vector<std::int32_t> indices, degrees(at(num_src), 0);
  std::vector<NodeId> ids;
  for (std::size_t v = 0; v < neighbors.size(); ++v) {
    indices.insert(indices.end(), neighbors[v].begin(), neighbors[v].end());
    indptr.push_back(static_cast<Count>(indices.size()));
    degrees[v] = static_cast<std::int32_t>(neighbors[v].size());
  }
  for (Count u = 0; u < num_src; ++u) ids.push_back(u);
  block.indptr = tensor_of(indptr, at::kLong);
  block.indices = tensor_of(indices, at::kInt);
  block.original_ids = tensor_of(ids, at::kLong);
  block.in_degrees = tensor_of(degrees, at::kInt);
  add_transpose(block, neighbors);
  return block;
}

OwnedBlock random_block(const RandomBlock& options) {
  std::uint64_t state = options.seed;
  const auto below = [&state](std::uint64_t bound) {
    return bound == 0 ? 0 : (state = mix64(state)) % bound;
  };
  std::vector<std::vector<std::int32_t>> neighbors(at(options.num_dst));
  for (auto& row : neighbors) {
    row.resize(options.num_src == 0 ? 0 : below(static_cast<std::uint64_t>(options.max_degree) + 1));
    for (std::int32_t& u : row)
      u = static_cast<std::int32_t>(below(static_cast<std::uint64_t>(options.num_src)));
  }
  OwnedBlock block = block_of(neighbors, options.num_src);
  block.original_ids = block.original_ids.mul(7919).add(5);
  auto* degrees = block.in_degrees.mutable_data_ptr<std::int32_t>();
  for (Count u = 0; u < options.num_src; ++u) degrees[u] += static_cast<std::int32_t>(below(20));
  if (!options.transpose) block.transposed_indptr = block.transposed_indices = at::Tensor();
  return block;
}

at::Tensor random_rows(Count rows, Count cols, std::uint64_t seed) {
  at::Tensor values = at::empty({rows, cols}, at::TensorOptions().dtype(at::kFloat));
  float* data = values.mutable_data_ptr<float>();
  for (Count i = 0; i < rows * cols; ++i) {
    data[i] = static_cast<float>(
        2.0 * unit_double(mix64(seed * 0x9E3779B97F4A7C15ull + static_cast<std::uint64_t>(i))) - 1.0);
  }
  return values;
}

}  // namespace strata::test
