// SPDX-License-Identifier: Apache-2.0
#include "layers/relation_rows.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "layers/op_support.hpp"
#include "strata/util/error.hpp"

namespace strata::nn {
namespace {

using sampling::Block;

at::TensorOptions longs_of(const Block& block) { return options_of(block).dtype(at::kLong); }
at::TensorOptions ints_of(const Block& block) { return options_of(block).dtype(at::kInt); }

const Count* longs(const at::Tensor& tensor) { return tensor.const_data_ptr<std::int64_t>(); }
const std::int32_t* ints(const at::Tensor& tensor) { return tensor.const_data_ptr<std::int32_t>(); }

/// Reads memory of the block's as a tensor.
template <typename T>
at::Tensor wrap(const T* data, Count count, const at::TensorOptions& options) {
  if (count == 0) return at::empty({0}, options);
  return at::from_blob(const_cast<T*>(data), {count}, options);
}

/// The arrays that RelationRows point to. Those of the transpose may be undefined.
struct RowArrays {
  at::Tensor row_indptr = {}, sources = {}, labels = {};  // of the neighbors of rows
  at::Tensor node_indptr = {}, node_rows = {};            // the rows of each dst node
  at::Tensor has_node = {}, dst_of_rows = {};             // the dst node of each row
  at::Tensor src_indptr = {}, rows_of_src = {};           // of the transpose
  at::Tensor weights = {};  // f32 of the edges of `neighbors`; undefined: all count once
};

std::shared_ptr<RelationRows> rows_of(const Block& block, const RowArrays& of) {
  auto rows = std::make_shared<RelationRows>();
  const Count size = of.row_indptr.size(0) - 1;
  rows->labels = of.labels;
  rows->neighbors = {.device = block.device,
                     .num_dst = size,
                     .num_src = block.num_src,
                     .num_edges = of.sources.size(0),
                     .indptr = longs(of.row_indptr),
                     .indices = ints(of.sources)};
  if (of.src_indptr.defined()) {
    rows->neighbors.transposed_indptr = longs(of.src_indptr);
    rows->neighbors.transposed_indices = ints(of.rows_of_src);
  }
  if (of.weights.defined()) {
    rows->neighbors.edge_weights = of.weights.const_data_ptr<float>();
    rows->weights = of.weights;
  }
  rows->nodes = {.device = block.device,
                 .num_dst = block.num_dst,
                 .num_src = size,
                 .num_edges = size,
                 .indptr = longs(of.node_indptr),
                 .indices = ints(of.node_rows),
                 .transposed_indptr = longs(of.has_node),
                 .transposed_indices = ints(of.dst_of_rows)};
  rows->arrays = {of.row_indptr, of.sources,     of.node_indptr, of.node_rows,
                  of.has_node,   of.dst_of_rows, of.src_indptr,  of.rows_of_src};
  return rows;
}

/// Where the slices of labels begin, [labels + 1] of rows and of edges.
struct Slices {
  std::vector<std::int32_t> rows, edges;
};

Slices count_slices(const LabelledEdges& in, const std::int32_t* labels) {
  const std::size_t size = at(Count{in.num_labels}) + 1;
  Slices slices{.rows = std::vector<std::int32_t>(size), .edges = std::vector<std::int32_t>(size)};
  const Block& block = in.block;
  for (Count d = 0; d < block.num_dst; ++d) {
    for (Count e = block.indptr[d]; e < block.indptr[d + 1]; ++e) {
      const auto label = at(Count{labels[e]});
      if (label + 1 >= size) throw Error(fmt::format("edge {} of a block has an id of no relation", e));
      slices.rows[label + 1] += e == block.indptr[d] || labels[e] != labels[e - 1];
      ++slices.edges[label + 1];
    }
  }
  std::partial_sum(slices.rows.begin(), slices.rows.end(), slices.rows.begin());
  std::partial_sum(slices.edges.begin(), slices.edges.end(), slices.edges.begin());
  return slices;
}

/// Where the edges of each src node begin, [num_src + 1].
at::Tensor starts_by_source(const Block& block, const std::int32_t* sources, Count num_edges) {
  const at::Tensor starts = at::zeros({block.num_src + 1}, longs_of(block));
  auto* const indptr = starts.mutable_data_ptr<std::int64_t>();
  for (Count e = 0; e < num_edges; ++e) ++indptr[sources[e] + 1];
  std::partial_sum(indptr, indptr + block.num_src + 1, indptr);
  return starts;
}

void add_transpose(RowArrays& of, const Block& block) {
  const Count num_edges = of.sources.size(0);
  of.src_indptr = starts_by_source(block, ints(of.sources), num_edges);
  of.rows_of_src = at::empty({num_edges}, ints_of(block));
  std::vector<Count> next(longs(of.src_indptr), longs(of.src_indptr) + block.num_src);
  const std::int64_t* const indptr = longs(of.row_indptr);
  for (Count row = 0; row + 1 < of.row_indptr.size(0); ++row) {
    for (Count e = indptr[row]; e < indptr[row + 1]; ++e)
      of.rows_of_src.mutable_data_ptr<std::int32_t>()[next[at(Count{ints(of.sources)[e]})]++] =
          static_cast<std::int32_t>(row);
  }
}

std::shared_ptr<const RelationRows> make_on_cpu(const LabelledEdges& in, const RowsRequest& request) {
  const Block& block = in.block;
  const std::int32_t* const labels = ints(in.labels);
  const Slices slices = count_slices(in, labels);
  const Count size = slices.rows.back(), num_edges = slices.edges.back();
  RowArrays of{.row_indptr = at::empty({size + 1}, longs_of(block)),
               .sources = at::empty({num_edges}, ints_of(block)),
               .labels = at::empty({num_edges}, ints_of(block)),
               .node_indptr = at::empty({block.num_dst + 1}, longs_of(block)),
               .node_rows = at::empty({size}, ints_of(block)),
               .has_node = at::arange(size + 1, longs_of(block)),
               .dst_of_rows = at::empty({size}, ints_of(block))};
  if (block.edge_weights != nullptr) of.weights = at::empty({num_edges}, options_of(block).dtype(at::kFloat));
  auto* const row_indptr = of.row_indptr.mutable_data_ptr<std::int64_t>();
  auto* const sources = of.sources.mutable_data_ptr<std::int32_t>();
  auto* const of_edges = of.labels.mutable_data_ptr<std::int32_t>();
  auto* const node_indptr = of.node_indptr.mutable_data_ptr<std::int64_t>();
  auto* const node_rows = of.node_rows.mutable_data_ptr<std::int32_t>();
  auto* const dst_of_rows = of.dst_of_rows.mutable_data_ptr<std::int32_t>();
  std::vector<std::int32_t> next_row = slices.rows, next_edge = slices.edges;
  Count listed = 0;
  for (Count d = 0; d < block.num_dst; ++d) {
    node_indptr[d] = listed;
    for (Count e = block.indptr[d]; e < block.indptr[d + 1]; ++e) {
      const auto label = at(Count{labels[e]});
      if (e == block.indptr[d] || labels[e] != labels[e - 1]) {
        const std::int32_t row = next_row[label]++;
        row_indptr[row] = next_edge[label];
        dst_of_rows[row] = static_cast<std::int32_t>(d);
        node_rows[listed++] = row;
      }
      const std::int32_t place = next_edge[label]++;
      sources[place] = block.indices[e];
      of_edges[place] = labels[e];
      if (of.weights.defined()) of.weights.mutable_data_ptr<float>()[place] = block.edge_weights[e];
    }
  }
  node_indptr[block.num_dst] = listed;
  row_indptr[size] = num_edges;
  if (request.transpose) add_transpose(of, block);
  const auto rows = rows_of(block, of);
  rows->ends = at::tensor(std::vector<int>(slices.rows.begin() + 1, slices.rows.end()), at::kInt);
  return rows;
}

/// A block of these lists, in the direction opposite to that of `block`.
LabelledEdges reversed_edges(const Block& block, const at::Tensor& indptr, const at::Tensor& indices,
                             const at::Tensor& labels, int num_labels) {
  return {.block = {.device = block.device,
                    .num_dst = block.num_src,
                    .num_src = block.num_dst,
                    .num_edges = indices.size(0),
                    .indptr = longs(indptr),
                    .indices = ints(indices)},
          .labels = labels,
          .num_labels = num_labels,
          .arrays = {indptr, indices}};
}

LabelledEdges reverse_on_cpu(const LabelledEdges& in) {
  const Block& block = in.block;
  const std::int32_t* const labels = ints(in.labels);
  std::vector<std::int32_t> next_edge = count_slices(in, labels).edges;
  const Count num_edges = next_edge.back();
  std::vector<std::int32_t> by_label(at(num_edges)), dst(at(num_edges));
  for (Count d = 0; d < block.num_dst; ++d) {
    for (Count e = block.indptr[d]; e < block.indptr[d + 1]; ++e) {
      by_label[at(Count{next_edge[at(Count{labels[e]})]++})] = static_cast<std::int32_t>(e);
      dst[at(e)] = static_cast<std::int32_t>(d);
    }
  }
  const at::Tensor indptr = starts_by_source(block, block.indices, num_edges),
                   indices = at::empty({num_edges}, ints_of(block)),
                   of_edges = at::empty({num_edges}, ints_of(block));
  std::vector<Count> next(longs(indptr), longs(indptr) + block.num_src);
  for (const std::int32_t e : by_label) {
    const Count place = next[at(Count{block.indices[e]})]++;
    indices.mutable_data_ptr<std::int32_t>()[place] = dst[at(Count{e})];
    of_edges.mutable_data_ptr<std::int32_t>()[place] = labels[e];
  }
  return reversed_edges(block, indptr, indices, of_edges, in.num_labels);
}

/// Whether each element differs from the one before it.
at::Tensor changes(const at::Tensor& values) {
  at::Tensor changed = at::empty(values.sizes(), values.options().dtype(at::kBool));
  if (values.size(0) == 0) return changed;
  changed.narrow(0, 0, 1).fill_(true);
  changed.slice(0, 1).copy_(values.slice(0, 1).ne(values.slice(0, 0, -1)));
  return changed;
}

/// {0, v0, v0 + v1, ...}.
at::Tensor sums_before(const at::Tensor& values) {
  const at::Tensor sums = values.cumsum(0, at::kLong);
  return at::cat({at::zeros({1}, sums.options()), sums});
}

at::Tensor sorted_ends(const at::Tensor& sorted, Count count) {
  return at::searchsorted(sorted, at::arange(count, sorted.options()), /*out_int32=*/false, /*right=*/true);
}
at::Tensor sorted_starts(const at::Tensor& sorted, Count count) {
  return at::searchsorted(sorted, at::arange(count, sorted.options()));
}

std::pair<at::Tensor, at::Tensor> stable_order(const at::Tensor& keys) {
  auto sorted = at::sort(keys, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  return {std::get<0>(sorted), std::get<1>(sorted)};
}

/// The edges of a block as libtorch's operations see them. Those behind the last real one pad a batch.
struct ListedEdges {
  at::Tensor indptr;
  at::Tensor real, dst, labels;  // by edge; the labels of unreal ones are the number of labels
};

ListedEdges read_edges(const LabelledEdges& in) {
  const Block& block = in.block;
  const at::Tensor indptr = wrap(block.indptr, block.num_dst + 1, longs_of(block)),
                   place = at::arange(block.num_edges, longs_of(block)),
                   real = place.lt(indptr.slice(0, block.num_dst));
  return {.indptr = indptr,
          .real = real,
          .dst = at::bucketize(place, indptr.slice(0, 1), /*out_int32=*/true, /*right=*/true),
          .labels = at::where(real, in.labels, in.num_labels)};
}

}  // namespace

// Beyond the real edges and rows, all arrays have values that nothing reads, or that add nothing.
std::shared_ptr<const RelationRows> make_relation_rows_by_torch(const LabelledEdges& in,
                                                                const RowsRequest& request) {
  const Block& block = in.block;
  const Count num_edges = block.num_edges, num_labels = in.num_labels;
  const Count bound = std::min(num_edges, block.num_dst * num_labels) + num_labels * (request.alignment - 1);
  const auto [indptr, real, dst, labels] = read_edges(in);
  const auto [label, order] = stable_order(labels);
  const at::Tensor valid = label.lt(num_labels), sorted_dst = dst.index_select(0, order);

  const at::Tensor begun = sums_before(changes(label).logical_or(changes(sorted_dst)).logical_and(valid));
  const at::Tensor rank = begun.slice(0, 1).sub(1);
  const at::Tensor edge_ends = sorted_ends(label, num_labels), row_ends = begun.index_select(0, edge_ends);
  const at::Tensor starts = at::cat({at::zeros({1}, row_ends.options()), row_ends.slice(0, 0, -1)});
  const at::Tensor sizes =
      row_ends.sub(starts).add(request.alignment - 1).div(request.alignment, "floor").mul(request.alignment);
  const at::Tensor aligned = sums_before(sizes);
  const at::Tensor shift = at::cat({aligned.slice(0, 0, -1).sub(starts), at::zeros({1}, starts.options())});
  const at::Tensor row = at::where(valid, rank.add(shift.index_select(0, label)), bound);  // ascending

  RowArrays of;
  of.row_indptr = sorted_starts(row, bound + 1);
  of.sources = wrap(block.indices, num_edges, ints_of(block)).index_select(0, order);
  of.labels = label;
  if (block.edge_weights != nullptr)
    of.weights =
        wrap(block.edge_weights, num_edges, options_of(block).dtype(at::kFloat)).index_select(0, order);
  of.has_node = sums_before(of.row_indptr.slice(0, 1).gt(of.row_indptr.slice(0, 0, -1)));
  of.dst_of_rows =
      at::zeros({bound + 1}, ints_of(block)).scatter_(0, at::where(valid, rank, bound), sorted_dst);
  const at::Tensor listed = sums_before(changes(labels).logical_or(changes(dst)).logical_and(real));
  of.node_indptr = listed.index_select(0, indptr);
  of.node_rows = at::zeros({bound + 1}, ints_of(block))
                     .scatter_(0, at::where(real, listed.slice(0, 1).sub(1), bound),
                               at::empty_like(row).scatter_(0, order, row).to(at::kInt));
  if (request.transpose) {
    const auto [source, edge] = stable_order(at::where(valid, of.sources, block.num_src));
    of.src_indptr = sorted_starts(source, block.num_src + 1);
    of.rows_of_src = row.index_select(0, edge).to(at::kInt);
  }
  const auto rows = rows_of(block, of);
  rows->ends = aligned.slice(0, 1).to(at::kInt);
  return rows;
}

std::shared_ptr<const RelationRows> make_relation_rows(const LabelledEdges& edges,
                                                       const RowsRequest& request) {
  if (edges.block.num_edges > std::numeric_limits<std::int32_t>::max())
    throw Error(fmt::format("a layer over several relations has {} edges; 2^31 - 1 are the most",
                            edges.block.num_edges),
                "Lower --batch-size or --fanouts.");
  return edges.block.device.is_cuda() ? make_relation_rows_by_torch(edges, request)
                                      : make_on_cpu(edges, request);
}

Block reversed(const Block& block) {
  return {.device = block.device,
          .num_dst = block.num_src,
          .num_src = block.num_dst,
          .num_edges = block.num_edges,
          .indptr = block.transposed_indptr,
          .indices = block.transposed_indices,
          .transposed_indptr = block.indptr,
          .transposed_indices = block.indices};
}

LabelledEdges reversed_by_torch(const LabelledEdges& in) {
  const Block& block = in.block;
  const ListedEdges edges = read_edges(in);
  // A GPU sorts short keys in half the passes.
  const Count last_key = block.num_src * in.num_labels;
  const auto kind = last_key < std::numeric_limits<std::int32_t>::max() ? at::kInt : at::kLong;
  const at::Tensor sources = wrap(block.indices, block.num_edges, ints_of(block)).to(kind);
  const auto [keys, order] =
      stable_order(at::where(edges.real, sources.mul(in.num_labels).add(edges.labels), last_key));
  const at::Tensor firsts = at::arange(block.num_src + 1, keys.options()).mul(in.num_labels);
  return reversed_edges(block, at::searchsorted(keys, firsts), edges.dst.index_select(0, order),
                        edges.labels.index_select(0, order), in.num_labels);
}

LabelledEdges reversed(const LabelledEdges& edges) {
  return edges.block.device.is_cuda() ? reversed_by_torch(edges) : reverse_on_cpu(edges);
}

LabelledEdges edges_of(const RelationRows& rows, int num_labels) {
  return {.block = rows.neighbors, .labels = rows.labels, .num_labels = num_labels, .arrays = rows.arrays};
}

at::Tensor labels_of(const RelationRows& rows) {
  return at::bucketize(at::arange(rows.size(), rows.ends.options()), rows.ends, /*out_int32=*/true,
                       /*right=*/true);
}

at::Tensor values_of_rows(const at::Tensor& values, const RelationRows& rows) {
  if (values.size(0) == 0) return at::zeros({rows.size()}, values.options());
  const Block& block = rows.nodes;
  const at::Tensor first = wrap(block.transposed_indptr, rows.size(), longs_of(block)),
                   nodes = wrap(block.transposed_indices, rows.size(), ints_of(block));
  return values.index_select(0, nodes.index_select(0, first.clamp_max(std::max<Count>(0, rows.size() - 1))));
}

at::Tensor sum_over(const at::Tensor& x, const Block& block,
                    const std::shared_ptr<const RelationRows>& rows) {
  return sum_over(x.scalar_type(), x, block, rows);
}

at::Tensor sum_over(at::ScalarType type, const at::Tensor& x, const Block& block,
                    const std::shared_ptr<const RelationRows>& rows) {
  return aggregate_to(type, type == at::kFloat ? x.to(type) : x, block, {.keep_alive = rows});
}

at::Tensor mean_of_neighbors(at::ScalarType type, const at::Tensor& x,
                             const std::shared_ptr<const RelationRows>& rows) {
  BlockScales scales = mean_scales(rows->neighbors);
  scales.keep_alive = rows;
  return aggregate_to(type, x, rows->neighbors, scales);
}

at::Tensor original_ids_of(const Block& block) {
  return wrap(block.src_original_ids, block.num_src, longs_of(block));
}

TypeRanges::TypeRanges(const graph::GraphTypes& types)
    : num_types_(static_cast<int>(types.nodes.size())),
      num_relations_(static_cast<int>(types.edges.size())),
      node_ends_(ends_of(types.node_offsets)),
      edge_ends_(ends_of(types.edge_offsets)) {}

TypeRanges::Ends TypeRanges::ends_of(const std::vector<std::int64_t>& offsets) {
  if (offsets.size() <= 2) return {};
  const at::Tensor host =
      at::tensor(std::vector<std::int64_t>(offsets.begin() + 1, offsets.end()), at::kLong);
  return {.host = host, .on_device = host};
}

at::Tensor TypeRanges::labels(const Ends& ends, const std::int64_t* ids, Count count, const Block& block) {
  if (!ends.host.defined()) return at::zeros({count}, ints_of(block));
  const at::TensorOptions options = longs_of(block);
  if (ends.on_device.device() != options.device()) ends.on_device = ends.host.to(options.device());
  return at::bucketize(wrap(ids, count, options), ends.on_device, /*out_int32=*/true, /*right=*/true);
}

LabelledEdges TypeRanges::relations(const Block& block) const {
  if (edge_ends_.host.defined() && block.edge_ids == nullptr && block.num_edges > 0)
    throw Error("a layer over several relations needs the ids of its block's edges, which were not sampled");
  return {.block = block,
          .labels = labels(edge_ends_, block.edge_ids, block.num_edges, block),
          .num_labels = num_relations_};
}

LabelledEdges TypeRanges::types_of_dst(const Block& block) const {
  if (node_ends_.host.defined() && block.src_original_ids == nullptr && block.num_dst > 0)
    throw Error("a layer over several types needs the original ids of its block's nodes");
  const at::Tensor indptr = at::arange(block.num_dst + 1, longs_of(block)),
                   indices = at::arange(block.num_dst, ints_of(block));
  return {.block = {.device = block.device,
                    .num_dst = block.num_dst,
                    .num_src = block.num_dst,
                    .num_edges = block.num_dst,
                    .indptr = longs(indptr),
                    .indices = ints(indices)},
          .labels = labels(node_ends_, block.src_original_ids, block.num_dst, block),
          .num_labels = num_types_,
          .arrays = {indptr, indices}};
}

}  // namespace strata::nn
