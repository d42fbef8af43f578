// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/cuda/stream.hpp"
#include "strata/util/random.hpp"
#include "strata/util/types.hpp"

/// Sums, maxima and attention over the edges of a bipartite graph, and their gradients, for layers that are
/// written elsewhere, for example in Python.
///
/// Pointers are to memory of the stream's device, matrices are dense and row by row. Calls are asynchronous
/// on the stream, allocate nothing and check nothing; on the CPU, they return when they are done, and use
/// OpenMP's threads. Each row of a result depends on its own edges only, taken in their order: any number of
/// threads gives the same bits. Each output is written completely.
namespace strata::nn {

/// The in-edges of `rows` nodes: those of node r are [indptr[r], indptr[r + 1]).
struct EdgeLists {
  Count rows = 0;
  const Count* indptr = nullptr;          ///< [rows + 1]
  const std::int32_t* indices = nullptr;  ///< [indptr[rows]] nodes at the edges' other ends
};

/// Edges sorted by one end, stably.
struct SortedEdges {
  Count* indptr = nullptr;          ///< [rows + 1]
  std::int32_t* indices = nullptr;  ///< [edges] the other ends
  std::int64_t* origins = nullptr;  ///< [edges] where each edge was before
};

/// Edge e goes from sources[e] to destinations[e].
struct EdgePairs {
  Count num_src = 0, num_dst = 0, count = 0;
  const std::int64_t* sources = nullptr;       ///< [count]
  const std::int64_t* destinations = nullptr;  ///< [count]
};

/// The in-edges of each destination, in the order of the pairs. Host memory. Throws InputError with the first
/// edge whose ends are not below num_src and num_dst.
///
///     sources {2, 0, 1}, destinations {1, 0, 1}
///     indptr {0, 1, 3}, indices {0, 2, 1}, origins {1, 0, 2}
void sort_edges(const EdgePairs& edges, const SortedEdges& out);

/// The out-edges of `num_src` sources, with ascending destinations. Host memory.
void transpose_edges(const EdgeLists& edges, Count num_src, const SortedEdges& out);

/// A scaled sum over the edges e of each row r, with i = indices[e]:
///
///     out[r] = row_scale[r] * sum over e of edge_scale[e] * col_scale[i] * in[i]  +  self_scale[r] * in[r]
///
/// A null scale stands for ones. The gradient of `in` is the same sum over the
/// transpose, with row_scale and col_scale exchanged.
struct EdgeSum {
  EdgeLists edges;
  Count cols = 0;
  DType dtype = DType::f32;           ///< of in and out: f32, bf16. Sums are f32
  const void* in = nullptr;           ///< [.., cols]
  const float* edge_scale = nullptr;  ///< parallel to `indices`
  const float* row_scale = nullptr;   ///< [rows]
  const float* col_scale = nullptr;   ///< [rows of in]
  const float* self_scale = nullptr;  ///< [num_self]
  Count num_self = 0;                 ///< rows from this one on have no self part
  bool skips_loops = false;           ///< leaves out edges with indices[e] == r, also in the transpose
  void* out = nullptr;                ///< [rows, cols]
};
void sum_over_edges(const EdgeSum& sum, const cuda::Stream& stream);

/// Sets inverse [rows] to 1 / the number of edges of each row, 0 without edges: the row_scale of a mean.
void inverse_counts(const EdgeLists& edges, float* inverse, const cuda::Stream& stream);

/// The sum over a node's edges beside its own row, so that one product with [A | B] maps both:
///
///     out[r] = [ row_scale[r] * sum over e of r of in[indices[e]]  |  in[r] ]
struct EdgeJoin {
  EdgeLists edges;
  Count cols = 0;
  DType dtype = DType::f32;          ///< of in and out: f32, bf16. Sums are f32
  const void* in = nullptr;          ///< [.., cols]; its first rows are the nodes' own
  const float* row_scale = nullptr;  ///< [rows]; null: ones
  void* out = nullptr;               ///< [rows, 2 * cols]
};
void join_sums(const EdgeJoin& join, const cuda::Stream& stream);

/// The gradient of EdgeJoin::in:
///
///     grad_in[u] = sum over the out-edges (u, v) of row_scale[v] * grad_out[v, :cols]
///                  + grad_out[u, cols:] where u < num_dst
struct EdgeJoinGrad {
  EdgeLists out_edges;  ///< of transpose_edges()
  Count num_dst = 0, cols = 0;
  DType dtype = DType::f32;          ///< of both gradients
  const void* grad_out = nullptr;    ///< [num_dst, 2 * cols]
  const float* row_scale = nullptr;  ///< [num_dst]; null: ones
  void* grad_in = nullptr;           ///< [out_edges.rows, cols]
};
void join_sums_grad(const EdgeJoinGrad& grad, const cuda::Stream& stream);

/// Sums of columns, out[c] = sum over r of in[r, c]: the gradient of a bias. The order of the sum depends
/// only on the number of rows.
struct ColumnSums {
  static constexpr Count rows_of_piece(Count rows) { return rows <= (1 << 24) ? 512 : (rows >> 15) + 1; }
  static constexpr Count pieces(Count rows) { return rows == 0 ? 1 : (rows - 1) / rows_of_piece(rows) + 1; }
  Count rows = 0, cols = 0;
  const float* in = nullptr;  ///< [rows, cols]
  float* scratch = nullptr;   ///< [pieces(rows), cols]; unused on the CPU
  float* out = nullptr;       ///< [cols]
};
void column_sums(const ColumnSums& sums, const cuda::Stream& stream);

/// out[r, c] = max over the edges of r of in[i, c], 0 without edges. winners[r, c] is the first i that
/// attains it, or -1. NaN wins.
struct EdgeMax {
  EdgeLists edges;
  Count cols = 0;
  const float* weights = nullptr;   ///< parallel to `indices`: edges of weight 0 are skipped; null: none is
  const float* in = nullptr;        ///< [.., cols]
  float* out = nullptr;             ///< [rows, cols]
  std::int32_t* winners = nullptr;  ///< [rows, cols]; null if no gradient is wanted
};
void max_over_edges(const EdgeMax& max, const cuda::Stream& stream);

/// grad_in[u, c] = sum of grad_out[v, c] over the distinct nodes v with winners[v, c] == u.
struct EdgeMaxGrad {
  EdgeLists out_edges;  ///< of transpose_edges(): destinations ascend, so that parallel edges are adjacent
  Count cols = 0;
  const std::int32_t* winners = nullptr;  ///< [destinations, cols]
  const float* grad_out = nullptr;        ///< [destinations, cols]
  float* grad_in = nullptr;               ///< [out_edges.rows, cols]
};
void max_over_edges_grad(const EdgeMaxGrad& grad, const cuda::Stream& stream);

/// Decides which elements dropout keeps: (row, c) is dropped if its 16 keyed bits are below `threshold`.
struct DropoutRule {
  BatchKey key;
  std::uint32_t hop = 0;                 ///< hop of the rows' nodes, counted from the seeds
  std::uint32_t threshold = 0;           ///< probability * 2^16; 0: keep all
  const NodeId* ids = nullptr;           ///< [rows] original ids; null if the threshold is 0
  const BatchKey* device_key = nullptr;  ///< key in device memory; replaces `key` if not null

  STRATA_HOST_DEVICE Philox4 words(RandomUse use, Count row) const { return words_of(use, ids[row]); }
  STRATA_HOST_DEVICE Philox4 words_of(RandomUse use, NodeId id) const {
    return keyed_words(device_key == nullptr ? key : *device_key, use, hop, id);
  }
  STRATA_HOST_DEVICE bool active() const { return threshold != 0; }
  /// The factor of kept elements, which keeps the expectation. It is exact for the rounded probability.
  float scale() const { return 65536.0f / static_cast<float>(65536u - threshold); }
};

/// Decides which edges attention drops, by the ids of their ends and by their relation.
struct EdgeDropout {
  DropoutRule rule{};                       ///< hop and ids are those of the sources
  const NodeId* dst_ids = nullptr;          ///< [destinations]; null: those of the first sources
  const std::int32_t* relations = nullptr;  ///< [num_src] relation of the edges from each source; null: 0

  STRATA_HOST_DEVICE bool active() const { return rule.active(); }
  float scale() const { return rule.scale(); }
};

/// The rule of EdgeAttention::dropout with a key of two words that is read where the kernels run, and `ids`
/// of max(num_src, edges.rows) distinct numbers. Both may be null without dropout.
EdgeDropout edge_dropout(double probability, const std::uint64_t* key, const NodeId* ids);

constexpr float kLeakySlope = 0.2f;

/// Softmax attention with one or more heads (Velickovic et al., "Graph attention networks", ICLR 2018):
///
///     s(u, v)  = leaky_relu(src_scores[u] + dst_scores[v])
///     p(u, v)  = n(u, v) exp(s(u, v)) / sum of n(w, v) exp(s(w, v)) over the in-neighbors w of v
///     out[v]   = sum of keep(u, v) p(u, v) rows[u]
///
/// n is how much the edge counts: 1, unless a forward pass has `edge_weights`. A row has the heads one after
/// the other, [heads, head_cols]. With `self_loops`, destination v has the edge (v, v), once, with n = 1, if
/// there is a source v. keep drops edges with the probability of `dropout` and scales those that it keeps by
/// 1 / (1 - probability); it is a function of the key, the edge's two ends and its relation, so that parallel
/// edges of a head are dropped together and a backward pass repeats it.
struct EdgeAttention {
  EdgeLists edges;
  EdgeLists out_edges{};  ///< of transpose_edges(), for gradients
  Count num_src = 0;
  Count heads = 1, head_cols = 0;
  const float* edge_weights = nullptr;  ///< parallel to edges.indices; null: ones. Forward only
  DType dtype = DType::f32;    ///< of rows, of the result and of both gradients: f32, bf16. Sums are f32
  const void* rows = nullptr;  ///< [num_src, heads * head_cols]
  const float* src_scores = nullptr;  ///< [num_src, heads]
  const float* dst_scores = nullptr;  ///< [edges.rows, heads]
  EdgeDropout dropout{};              ///< of p
  float slope = kLeakySlope;          ///< of the leaky ReLU below 0
  bool self_loops = true;

  STRATA_HOST_DEVICE Count cols() const { return heads * head_cols; }
  STRATA_HOST_DEVICE float raw_score(Count u, Count v, Count head) const {
    return src_scores[u * heads + head] + dst_scores[v * heads + head];
  }
  STRATA_HOST_DEVICE bool has_loop(Count v) const { return self_loops && v < num_src && v < edges.rows; }
  /// Whether the edge (u, v) is left out, because has_loop() stands for it.
  STRATA_HOST_DEVICE bool leaves_out(Count u, Count v) const { return self_loops && u == v; }
};

/// scores[r, h] = <rows[r, h], weights[h]>.
struct HeadScores {
  Count num_rows = 0, heads = 1, head_cols = 0;
  const float* rows = nullptr;     ///< [num_rows, heads * head_cols]
  const float* weights = nullptr;  ///< [heads, head_cols]
  float* scores = nullptr;         ///< [num_rows, heads]
};
void score_heads(const HeadScores& scores, const cuda::Stream& stream);

struct EdgeAttentionForward {
  EdgeAttention over;
  float* log_sums = nullptr;  ///< [destinations, heads] log of the softmax's denominators, for the gradient
  void* out = nullptr;        ///< [destinations, heads * head_cols]
};
void attend_over_edges(const EdgeAttentionForward& pass, const cuda::Stream& stream);

/// src_scores must be the HeadScores of `rows` with src_weights; dst_scores those of the first rows with
/// dst_weights. Where weights are null, the scores are those of anything else.
struct EdgeAttentionGrad {
  EdgeAttention over;
  const float* log_sums = nullptr;                             ///< of the forward pass
  const float *src_weights = nullptr, *dst_weights = nullptr;  ///< [heads, head_cols]
  const void* grad_out = nullptr;                              ///< [destinations, heads * head_cols]
  float* means = nullptr;            ///< [destinations, heads] scratch: sum of p times its gradient
  float* grad_src_scores = nullptr;  ///< [num_src, heads]
  float* grad_dst_scores = nullptr;  ///< [destinations, heads]
  void* grad_rows = nullptr;  ///< [num_src, heads * head_cols], including what comes through the scores
};
void attend_over_edges_grad(const EdgeAttentionGrad& pass, const cuda::Stream& stream);

/// Softmax attention by dot products (Vaswani et al., "Attention is all you need", NIPS 2017) over edges, with
/// one or more heads:
///
///     s(u, v)  = <queries[v], keys[u]>
///     out[v]   = sum of keep(u, v) exp(s(u, v)) values[u] / sum of exp(s(u, v)) over the in-neighbors u of v
///
/// A row has its key and its value one after the other, [2, heads, head_cols]. keep is that of EdgeAttention.
struct DotAttention {
  EdgeLists edges;
  EdgeLists out_edges{};  ///< of transpose_edges(), for gradients
  Count num_src = 0;
  Count heads = 1, head_cols = 0;
  DType dtype = DType::f32;       ///< of queries, rows, the result and all gradients: f32, bf16. Sums are f32
  const void* queries = nullptr;  ///< [edges.rows, heads * head_cols]
  const void* rows = nullptr;     ///< [num_src, 2 * heads * head_cols]
  EdgeDropout dropout{};

  STRATA_HOST_DEVICE Count cols() const { return heads * head_cols; }
};

struct DotAttentionForward {
  DotAttention over;
  float* log_sums = nullptr;  ///< [destinations, heads] log of the softmax's denominators, for the gradient
  void* out = nullptr;        ///< [destinations, heads * head_cols]
};
void attend_by_dots(const DotAttentionForward& pass, const cuda::Stream& stream);

struct DotAttentionGrad {
  DotAttention over;
  const float* log_sums = nullptr;  ///< of the forward pass
  const void* grad_out = nullptr;   ///< [destinations, heads * head_cols]
  float* means = nullptr;           ///< [destinations, heads] scratch: sum of the softmax times its gradient
  void* grad_queries = nullptr;     ///< [destinations, heads * head_cols]
  void* grad_rows = nullptr;        ///< [num_src, 2 * heads * head_cols]
};
void attend_by_dots_grad(const DotAttentionGrad& pass, const cuda::Stream& stream);

}  // namespace strata::nn
