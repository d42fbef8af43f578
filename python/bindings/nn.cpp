// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "strata/nn/candidate_scores.hpp"
#include "strata/nn/edge_ops.hpp"
#include "strata/util/error.hpp"

namespace strata::python {
namespace {

using namespace nb::literals;

template <typename T>
using Array = nb::ndarray<T, nb::c_contig>;
template <typename T>
using MaybeArray = std::optional<Array<T>>;
using AnyMutableArray = nb::ndarray<nb::c_contig>;
using Matrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig>;  // of a type that dtype_of() knows

template <typename... Args>
Device device_of(const nb::ndarray<Args...>& array) {
  const bool cuda = array.device_type() == nb::device::cuda::value;
  return {.kind = cuda ? Device::Kind::cuda : Device::Kind::cpu, .index = cuda ? array.device_id() : 0};
}

template <typename... Args>
Count extent(const nb::ndarray<Args...>& array, std::size_t dimension) {
  return static_cast<Count>(array.shape(dimension));
}

template <typename T>
T* data_of(const MaybeArray<T>& array) {
  return array ? array->data() : nullptr;
}

nn::EdgeLists lists_of(const Array<const Count>& indptr, const Array<const std::int32_t>& indices) {
  return {.rows = extent(indptr, 0) - 1, .indptr = indptr.data(), .indices = indices.data()};
}

nn::SortedEdges sorted_of(const Array<Count>& indptr, const Array<std::int32_t>& indices,
                          const Array<std::int64_t>& origins) {
  return {.indptr = indptr.data(), .indices = indices.data(), .origins = origins.data()};
}

void sort_edges(const Array<const std::int64_t>& edge_index, Count num_src, const Array<Count>& indptr,
                const Array<std::int32_t>& indices, const Array<std::int64_t>& origins) {
  const Count count = extent(edge_index, 1);
  const nn::EdgePairs pairs{.num_src = num_src,
                            .num_dst = extent(indptr, 0) - 1,
                            .count = count,
                            .sources = edge_index.data(),
                            .destinations = edge_index.data() + count};
  const nn::SortedEdges out = sorted_of(indptr, indices, origins);
  const nb::gil_scoped_release guard;
  nn::sort_edges(pairs, out);
}

void transpose_edges(const Array<const Count>& indptr, const Array<const std::int32_t>& indices,
                     const Array<Count>& out_indptr, const Array<std::int32_t>& out_indices,
                     const Array<std::int64_t>& out_origins) {
  const nn::EdgeLists lists = lists_of(indptr, indices);
  const nn::SortedEdges out = sorted_of(out_indptr, out_indices, out_origins);
  const Count num_src = extent(out_indptr, 0) - 1;
  const nb::gil_scoped_release guard;
  nn::transpose_edges(lists, num_src, out);
}

DType dtype_of(const Matrix& rows) {
  const nb::dlpack::dtype type = rows.dtype();
  if (type == nb::dtype<float>()) return DType::f32;
  if (type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) && type.bits == 16)
    return DType::bf16;
  throw InputError("rows are neither float32 nor bfloat16", "Convert them: rows.float().");
}

void sum_over_edges(const Array<const Count>& indptr, const Array<const std::int32_t>& indices,
                    const Matrix& in, const MaybeArray<const float>& edge_scale,
                    const MaybeArray<const float>& row_scale, const MaybeArray<const float>& col_scale,
                    const MaybeArray<const float>& self_scale, bool skips_loops, const AnyMutableArray& out,
                    std::uintptr_t stream) {
  const nn::EdgeSum sum{.edges = lists_of(indptr, indices),
                        .cols = extent(in, 1),
                        .dtype = dtype_of(in),
                        .in = in.data(),
                        .edge_scale = data_of(edge_scale),
                        .row_scale = data_of(row_scale),
                        .col_scale = data_of(col_scale),
                        .self_scale = data_of(self_scale),
                        .num_self = self_scale ? extent(*self_scale, 0) : 0,
                        .skips_loops = skips_loops,
                        .out = out.data()};
  const cuda::Stream on = borrow_stream(device_of(in), stream);
  const nb::gil_scoped_release guard;
  nn::sum_over_edges(sum, on);
}

void inverse_counts(const Array<const Count>& indptr, const Array<float>& inverse, std::uintptr_t stream) {
  const nn::EdgeLists lists{.rows = extent(inverse, 0), .indptr = indptr.data()};
  const cuda::Stream on = borrow_stream(device_of(inverse), stream);
  const nb::gil_scoped_release guard;
  nn::inverse_counts(lists, inverse.data(), on);
}

void join_sums(const Array<const Count>& indptr, const Array<const std::int32_t>& indices, const Matrix& in,
               const MaybeArray<const float>& row_scale, const AnyMutableArray& out, std::uintptr_t stream) {
  const nn::EdgeJoin join{.edges = lists_of(indptr, indices),
                          .cols = extent(in, 1),
                          .dtype = dtype_of(in),
                          .in = in.data(),
                          .row_scale = data_of(row_scale),
                          .out = out.data()};
  const cuda::Stream on = borrow_stream(device_of(in), stream);
  const nb::gil_scoped_release guard;
  nn::join_sums(join, on);
}

void join_sums_grad(const Array<const Count>& out_indptr, const Array<const std::int32_t>& out_indices,
                    const Matrix& grad_out, const MaybeArray<const float>& row_scale,
                    const AnyMutableArray& grad_in, std::uintptr_t stream) {
  const nn::EdgeJoinGrad grad{.out_edges = lists_of(out_indptr, out_indices),
                              .num_dst = extent(grad_out, 0),
                              .cols = extent(grad_in, 1),
                              .dtype = dtype_of(grad_out),
                              .grad_out = grad_out.data(),
                              .row_scale = data_of(row_scale),
                              .grad_in = grad_in.data()};
  const cuda::Stream on = borrow_stream(device_of(grad_out), stream);
  const nb::gil_scoped_release guard;
  nn::join_sums_grad(grad, on);
}

void max_over_edges(const Array<const Count>& indptr, const Array<const std::int32_t>& indices,
                    const Array<const float>& in, const Array<float>& out, const Array<std::int32_t>& winners,
                    std::uintptr_t stream) {
  const nn::EdgeMax max{.edges = lists_of(indptr, indices),
                        .cols = extent(in, 1),
                        .in = in.data(),
                        .out = out.data(),
                        .winners = winners.data()};
  const cuda::Stream on = borrow_stream(device_of(in), stream);
  const nb::gil_scoped_release guard;
  nn::max_over_edges(max, on);
}

void max_over_edges_grad(const Array<const Count>& out_indptr, const Array<const std::int32_t>& out_indices,
                         const Array<const std::int32_t>& winners, const Array<const float>& grad_out,
                         const Array<float>& grad_in, std::uintptr_t stream) {
  const nn::EdgeMaxGrad grad{.out_edges = lists_of(out_indptr, out_indices),
                             .cols = extent(grad_out, 1),
                             .winners = winners.data(),
                             .grad_out = grad_out.data(),
                             .grad_in = grad_in.data()};
  const cuda::Stream on = borrow_stream(device_of(grad_out), stream);
  const nb::gil_scoped_release guard;
  nn::max_over_edges_grad(grad, on);
}

void score_heads(const Array<const float>& rows, const Array<const float>& weights,
                 const Array<float>& scores, std::uintptr_t stream) {
  const nn::HeadScores all{.num_rows = extent(scores, 0),
                           .heads = extent(weights, 0),
                           .head_cols = extent(weights, 1),
                           .rows = rows.data(),
                           .weights = weights.data(),
                           .scores = scores.data()};
  const cuda::Stream on = borrow_stream(device_of(rows), stream);
  const nb::gil_scoped_release guard;
  nn::score_heads(all, on);
}

/// The arguments of both passes of attention.
struct AttentionArrays {
  Array<const Count> indptr;
  Array<const std::int32_t> indices;
  Matrix rows;
  Array<const float> src_scores, dst_scores;
  float slope;
  bool self_loops;
  double dropout;
  MaybeArray<const std::int64_t> key, ids;

  nn::EdgeAttention view(const nn::EdgeLists& out_edges = {}) const {
    const Count heads = extent(src_scores, 1);
    return {.edges = lists_of(indptr, indices),
            .out_edges = out_edges,
            .num_src = extent(rows, 0),
            .heads = heads,
            .head_cols = extent(rows, 1) / heads,
            .dtype = dtype_of(rows),
            .rows = rows.data(),
            .src_scores = src_scores.data(),
            .dst_scores = dst_scores.data(),
            .dropout =
                nn::edge_dropout(dropout, reinterpret_cast<const std::uint64_t*>(data_of(key)), data_of(ids)),
            .slope = slope,
            .self_loops = self_loops};
  }
};

void bind_attention(nb::module_& module) {
  nb::class_<AttentionArrays>(module, "Attention", "Arguments of both passes of attention over edges.")
      .def(nb::init<Array<const Count>, Array<const std::int32_t>, Matrix, Array<const float>,
                    Array<const float>, float, bool, double, MaybeArray<const std::int64_t>,
                    MaybeArray<const std::int64_t>>(),
           "indptr"_a.noconvert(), "indices"_a.noconvert(), "rows"_a.noconvert(), "src_scores"_a.noconvert(),
           "dst_scores"_a.noconvert(), "slope"_a, "self_loops"_a, "dropout"_a, "key"_a.noconvert().none(),
           "ids"_a.noconvert().none());
  module.def(
      "attend_over_edges",
      [](const AttentionArrays& over, const Array<float>& log_sums, const AnyMutableArray& out,
         std::uintptr_t stream) {
        const nn::EdgeAttentionForward pass{
            .over = over.view(), .log_sums = log_sums.data(), .out = out.data()};
        const cuda::Stream on = borrow_stream(device_of(out), stream);
        const nb::gil_scoped_release guard;
        nn::attend_over_edges(pass, on);
      },
      "over"_a, "log_sums"_a.noconvert(), "out"_a.noconvert(), "stream"_a);
  module.def(
      "attend_over_edges_grad",
      [](const AttentionArrays& over, const Array<const Count>& out_indptr,
         const Array<const std::int32_t>& out_indices, const Array<const float>& log_sums,
         const MaybeArray<const float>& src_weights, const MaybeArray<const float>& dst_weights,
         const Matrix& grad_out, const Array<float>& means, const Array<float>& grad_src_scores,
         const Array<float>& grad_dst_scores, const AnyMutableArray& grad_rows, std::uintptr_t stream) {
        const nn::EdgeAttentionGrad pass{.over = over.view(lists_of(out_indptr, out_indices)),
                                         .log_sums = log_sums.data(),
                                         .src_weights = data_of(src_weights),
                                         .dst_weights = data_of(dst_weights),
                                         .grad_out = grad_out.data(),
                                         .means = means.data(),
                                         .grad_src_scores = grad_src_scores.data(),
                                         .grad_dst_scores = grad_dst_scores.data(),
                                         .grad_rows = grad_rows.data()};
        const cuda::Stream on = borrow_stream(device_of(grad_out), stream);
        const nb::gil_scoped_release guard;
        nn::attend_over_edges_grad(pass, on);
      },
      "over"_a, "out_indptr"_a.noconvert(), "out_indices"_a.noconvert(), "log_sums"_a.noconvert(),
      "src_weights"_a.noconvert().none(), "dst_weights"_a.noconvert().none(), "grad_out"_a.noconvert(),
      "means"_a.noconvert(), "grad_src_scores"_a.noconvert(), "grad_dst_scores"_a.noconvert(),
      "grad_rows"_a.noconvert(), "stream"_a);
}

nn::DotAttention dots_of(const nn::EdgeLists& edges, const Matrix& queries, const Matrix& rows, Count heads) {
  return {.edges = edges,
          .num_src = extent(rows, 0),
          .heads = heads,
          .head_cols = extent(queries, 1) / heads,
          .dtype = dtype_of(rows),
          .queries = queries.data(),
          .rows = rows.data()};
}

void attend_by_dots(const Array<const Count>& indptr, const Array<const std::int32_t>& indices,
                    const Matrix& queries, const Matrix& rows, Count heads, const Array<float>& log_sums,
                    const AnyMutableArray& out, std::uintptr_t stream) {
  const nn::DotAttentionForward pass{.over = dots_of(lists_of(indptr, indices), queries, rows, heads),
                                     .log_sums = log_sums.data(),
                                     .out = out.data()};
  const cuda::Stream on = borrow_stream(device_of(out), stream);
  const nb::gil_scoped_release guard;
  nn::attend_by_dots(pass, on);
}

void attend_by_dots_grad(const Array<const Count>& indptr, const Array<const std::int32_t>& indices,
                         const Matrix& queries, const Matrix& rows, Count heads,
                         const Array<const Count>& out_indptr, const Array<const std::int32_t>& out_indices,
                         const Array<const float>& log_sums, const Matrix& grad_out,
                         const Array<float>& means, const AnyMutableArray& grad_queries,
                         const AnyMutableArray& grad_rows, std::uintptr_t stream) {
  nn::DotAttentionGrad pass{.over = dots_of(lists_of(indptr, indices), queries, rows, heads),
                            .log_sums = log_sums.data(),
                            .grad_out = grad_out.data(),
                            .means = means.data(),
                            .grad_queries = grad_queries.data(),
                            .grad_rows = grad_rows.data()};
  pass.over.out_edges = lists_of(out_indptr, out_indices);
  const cuda::Stream on = borrow_stream(device_of(grad_out), stream);
  const nb::gil_scoped_release guard;
  nn::attend_by_dots_grad(pass, on);
}

void bind_dots(nb::module_& module) {
  module.def("attend_by_dots", &attend_by_dots, "indptr"_a.noconvert(), "indices"_a.noconvert(),
             "queries"_a.noconvert(), "rows"_a.noconvert(), "heads"_a, "log_sums"_a.noconvert(),
             "out"_a.noconvert(), "stream"_a);
  module.def("attend_by_dots_grad", &attend_by_dots_grad, "indptr"_a.noconvert(), "indices"_a.noconvert(),
             "queries"_a.noconvert(), "rows"_a.noconvert(), "heads"_a, "out_indptr"_a.noconvert(),
             "out_indices"_a.noconvert(), "log_sums"_a.noconvert(), "grad_out"_a.noconvert(),
             "means"_a.noconvert(), "grad_queries"_a.noconvert(), "grad_rows"_a.noconvert(), "stream"_a);
}

void score_candidates(const Array<const float>& queries, const Matrix& rows, const Array<const NodeId>& ids,
                      const MaybeArray<const NodeId>& left_out, const Array<float>& out,
                      std::uintptr_t stream) {
  const nn::CandidateScores scores{.edges = extent(ids, 0),
                                   .candidates = extent(ids, 1),
                                   .cols = extent(rows, 1),
                                   .dtype = dtype_of(rows),
                                   .queries = queries.data(),
                                   .rows = rows.data(),
                                   .ids = ids.data(),
                                   .left_out = data_of(left_out),
                                   .out = out.data()};
  const cuda::Stream on = borrow_stream(device_of(out), stream);
  const nb::gil_scoped_release guard;
  nn::score_candidates(scores, on);
}

void count_scores(const Array<const float>& scores, Count candidates, const Array<const float>& own,
                  const Array<Count>& above, const Array<Count>& equal, std::uintptr_t stream) {
  const nn::ScoreCounts counts{.edges = extent(own, 0),
                               .candidates = candidates,
                               .row_length = extent(scores, 1),
                               .scores = scores.data(),
                               .own = own.data(),
                               .above = above.data(),
                               .equal = equal.data()};
  const cuda::Stream on = borrow_stream(device_of(scores), stream);
  const nb::gil_scoped_release guard;
  nn::count_scores(counts, on);
}

void bind_candidates(nb::module_& module) {
  module.def("score_candidates", &score_candidates, "queries"_a.noconvert(), "rows"_a.noconvert(),
             "ids"_a.noconvert(), "left_out"_a.noconvert().none(), "out"_a.noconvert(), "stream"_a);
  module.def("count_scores", &count_scores, "scores"_a.noconvert(), "candidates"_a, "own"_a.noconvert(),
             "above"_a.noconvert(), "equal"_a.noconvert(), "stream"_a);
}

}  // namespace

void bind_nn(nb::module_& module) {
  module.def("sort_edges", &sort_edges, "edge_index"_a.noconvert(), "num_src"_a, "indptr"_a.noconvert(),
             "indices"_a.noconvert(), "origins"_a.noconvert());
  module.def("transpose_edges", &transpose_edges, "indptr"_a.noconvert(), "indices"_a.noconvert(),
             "out_indptr"_a.noconvert(), "out_indices"_a.noconvert(), "out_origins"_a.noconvert());
  module.def("sum_over_edges", &sum_over_edges, "indptr"_a.noconvert(), "indices"_a.noconvert(),
             "input"_a.noconvert(), "edge_scale"_a.noconvert().none(), "row_scale"_a.noconvert().none(),
             "col_scale"_a.noconvert().none(), "self_scale"_a.noconvert().none(), "skips_loops"_a,
             "out"_a.noconvert(), "stream"_a);
  module.def("inverse_counts", &inverse_counts, "indptr"_a.noconvert(), "inverse"_a.noconvert(), "stream"_a);
  module.def("join_sums", &join_sums, "indptr"_a.noconvert(), "indices"_a.noconvert(), "input"_a.noconvert(),
             "row_scale"_a.noconvert().none(), "out"_a.noconvert(), "stream"_a);
  module.def("join_sums_grad", &join_sums_grad, "out_indptr"_a.noconvert(), "out_indices"_a.noconvert(),
             "grad_out"_a.noconvert(), "row_scale"_a.noconvert().none(), "grad_in"_a.noconvert(), "stream"_a);
  module.def("max_over_edges", &max_over_edges, "indptr"_a.noconvert(), "indices"_a.noconvert(),
             "input"_a.noconvert(), "out"_a.noconvert(), "winners"_a.noconvert(), "stream"_a);
  module.def("max_over_edges_grad", &max_over_edges_grad, "out_indptr"_a.noconvert(),
             "out_indices"_a.noconvert(), "winners"_a.noconvert(), "grad_out"_a.noconvert(),
             "grad_in"_a.noconvert(), "stream"_a);
  module.def("score_heads", &score_heads, "rows"_a.noconvert(), "weights"_a.noconvert(),
             "scores"_a.noconvert(), "stream"_a);
  bind_attention(module);
  bind_dots(module);
  bind_candidates(module);
}

}  // namespace strata::python
