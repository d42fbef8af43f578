// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/parallel_cpu.hpp"

namespace strata::nn {
namespace {

/// Uses sixteen partial sums, so that it fills every kind of vector register and gives the same bits with all
/// of them.
template <typename A, typename B>
inline float dot(const A* a, const B* b, Count count) {
  constexpr Count kPartials = 16;
  float partial[kPartials] = {};
  Count i = 0;
  for (; i + kPartials <= count; i += kPartials) {
    for (Count j = 0; j < kPartials; ++j) partial[j] += to_f32(a[i + j]) * to_f32(b[i + j]);
  }
  for (Count j = 0; i + j < count; ++j) partial[j] += to_f32(a[i + j]) * to_f32(b[i + j]);
  for (Count width = kPartials / 2; width > 0; width /= 2) {
    for (Count j = 0; j < width; ++j) partial[j] += partial[j + width];
  }
  return partial[0];
}

template <typename T>
inline void add_scaled(float* __restrict to, const T* __restrict from, float scale, Count count) {
  for (Count c = 0; c < count; ++c) to[c] += scale * to_f32(from[c]);
}

/// A head's slice of a row of the results. It is summed in f32: in place if the result is f32, else in `beside`.
template <typename T>
struct Sum {
  T* out;
  float* beside;
  Count cols;

  inline float* zeros() const {
    float* const total = get();
    std::fill_n(total, cols, 0.0f);
    return total;
  }
  inline float* get() const {
    if constexpr (std::is_same_v<T, float>)
      return out;
    else
      return beside;
  }
  inline void finish() const {
    if constexpr (!std::is_same_v<T, float>) {
      for (Count c = 0; c < cols; ++c) out[c] = from_f32<T>(beside[c]);
    }
  }
};

/// One head and its slice of a row; `Over` is EdgeAttention or DotAttention, T float or Bf16.
template <typename Over, typename T>
struct HeadOf {
  using Element = T;
  const Over& over;
  Count head;
  float* beside;  ///< [2 * head_cols] for sums; unused if T is float

  const T* slice(const void* rows, Count r) const { return static_cast<const T*>(rows) + first(r); }
  const float* weights(const float* of_heads) const { return of_heads + head * over.head_cols; }
  Sum<T> sum(void* rows, Count r, Count number = 0) const {
    return {static_cast<T*>(rows) + first(r), beside + number * over.head_cols, over.head_cols};
  }
  Count first(Count r) const { return r * over.cols() + head * over.head_cols; }
  Count at(Count r) const { return r * over.heads + head; }
  float kept(const Philox4& key, Count u) const {
    if (!over.dropout.active()) return 1.0f;
    return keeps_edge(over.dropout, key, u, static_cast<std::uint32_t>(head)) ? over.dropout.scale() : 0.0f;
  }
  Philox4 key(Count v) const { return over.dropout.active() ? edge_key(over.dropout, v) : Philox4{}; }
};

template <typename T>
struct Head : HeadOf<EdgeAttention, T> {
  const T* row(Count u) const { return this->slice(this->over.rows, u); }
  float raw(Count u, Count v) const { return this->over.raw_score(u, v, this->head); }
};

/// Calls body(u) for the node itself and its in-neighbors.
template <typename Body>
inline void for_in_edges(const EdgeAttention& over, Count v, const Body& body) {
  if (over.has_loop(v)) body(v);
  for (Count e = over.edges.indptr[v]; e < over.edges.indptr[v + 1]; ++e) {
    if (!over.leaves_out(over.edges.indices[e], v)) body(static_cast<Count>(over.edges.indices[e]));
  }
}

/// Calls body(v) for the node itself, if it is a dst node, and for the nodes that it is an in-neighbor of.
template <typename Body>
inline void for_out_edges(const EdgeAttention& over, Count u, const Body& body) {
  if (over.has_loop(u)) body(u);
  for (Count e = over.out_edges.indptr[u]; e < over.out_edges.indptr[u + 1]; ++e) {
    if (!over.leaves_out(u, over.out_edges.indices[e])) body(static_cast<Count>(over.out_edges.indices[e]));
  }
}

/// The same with body(u, how much the edge counts).
template <typename Body>
inline void for_weighted_in_edges(const EdgeAttention& over, Count v, const Body& body) {
  if (over.edge_weights == nullptr) return for_in_edges(over, v, [&](Count u) { body(u, 1.0f); });
  if (over.has_loop(v)) body(v, 1.0f);
  for (Count e = over.edges.indptr[v]; e < over.edges.indptr[v + 1]; ++e) {
    if (!over.leaves_out(over.edges.indices[e], v) && over.edge_weights[e] > 0)
      body(static_cast<Count>(over.edges.indices[e]), over.edge_weights[e]);
  }
}

template <typename T>
inline float log_sum(const Head<T>& head, Count v) {
  float largest = -std::numeric_limits<float>::infinity(), sum = 0.0f;
  for_weighted_in_edges(head.over, v, [&](Count u, float counts) {
    const float score = leaky_relu(head.raw(u, v), head.over.slope);
    if (score > largest) {
      sum = sum * std::exp(largest - score) + counts;
      largest = score;
    } else {
      sum += counts * std::exp(score - largest);
    }
  });
  return largest + std::log(sum);
}

template <typename T>
inline void attend(const EdgeAttentionForward& pass, const Head<T>& head, Count v) {
  const float total = log_sum(head, v);
  pass.log_sums[head.at(v)] = total;
  const Sum<T> sum = head.sum(pass.out, v);
  float* const out = sum.zeros();
  const Philox4 key = head.key(v);
  for_weighted_in_edges(head.over, v, [&](Count u, float counts) {
    const float p =
        counts * std::exp(leaky_relu(head.raw(u, v), head.over.slope) - total) * head.kept(key, u);
    add_scaled(out, head.row(u), p, head.over.head_cols);
  });
  sum.finish();
}

/// The gradient of a softmax. For score s it is p (g - mean), where g is the gradient of p and mean is the
/// sum of p g over the edges.
template <typename T>
inline void grad_of_dst(const EdgeAttentionGrad& pass, const Head<T>& head, Count v) {
  const Philox4 key = head.key(v);
  const T* grad = head.slice(pass.grad_out, v);
  float mean = 0, sloped_mean = 0, slopes = 0;
  for_in_edges(head.over, v, [&](Count u) {
    const float raw = head.raw(u, v);
    const float p = std::exp(leaky_relu(raw, head.over.slope) - pass.log_sums[head.at(v)]);
    const float g = dot(grad, head.row(u), head.over.head_cols) * head.kept(key, u);
    mean += p * g;
    sloped_mean += p * g * leaky_slope(raw, head.over.slope);
    slopes += p * leaky_slope(raw, head.over.slope);
  });
  pass.means[head.at(v)] = mean;
  pass.grad_dst_scores[head.at(v)] = sloped_mean - mean * slopes;
}

template <typename T>
inline void grad_of_src(const EdgeAttentionGrad& pass, const Head<T>& head, Count u) {
  const Count cols = head.over.head_cols;
  const Sum<T> sum = head.sum(pass.grad_rows, u);
  float* const out = sum.zeros();
  float grad_score = 0;
  for_out_edges(head.over, u, [&](Count v) {
    const T* grad = head.slice(pass.grad_out, v);
    const float raw = head.raw(u, v), kept = head.kept(head.key(v), u);
    const float p = std::exp(leaky_relu(raw, head.over.slope) - pass.log_sums[head.at(v)]);
    grad_score += p * (dot(grad, head.row(u), cols) * kept - pass.means[head.at(v)]) *
                  leaky_slope(raw, head.over.slope);
    add_scaled(out, grad, p * kept, cols);
  });
  pass.grad_src_scores[head.at(u)] = grad_score;
  if (pass.src_weights != nullptr) add_scaled(out, head.weights(pass.src_weights), grad_score, cols);
  if (pass.dst_weights != nullptr && u < head.over.edges.rows)
    add_scaled(out, head.weights(pass.dst_weights), pass.grad_dst_scores[head.at(u)], cols);
  sum.finish();
}

template <typename T>
struct DotHead : HeadOf<DotAttention, T> {
  const T* query(Count v) const { return this->slice(this->over.queries, v); }
  const T* key_of(Count u) const { return this->slice(this->over.rows, 2 * u); }
  const T* value(Count u) const { return this->slice(this->over.rows, 2 * u + 1); }
  float score(Count u, Count v) const { return dot(query(v), key_of(u), this->over.head_cols); }
};

template <typename T>
inline void attend(const DotAttentionForward& pass, const DotHead<T>& head, Count v) {
  const EdgeLists& edges = head.over.edges;
  const Sum<T> of_values = head.sum(pass.out, v);
  float* const out = of_values.zeros();
  const Philox4 key = head.key(v);
  float largest = -std::numeric_limits<float>::infinity(), sum = 0.0f;
  for (Count e = edges.indptr[v]; e < edges.indptr[v + 1]; ++e) {
    const Count u = edges.indices[e];
    const float score = head.score(u, v);
    if (score > largest) {
      const float shrunk = std::exp(largest - score);
      for (Count c = 0; c < head.over.head_cols; ++c) out[c] *= shrunk;
      sum *= shrunk;
      largest = score;
    }
    const float weight = std::exp(score - largest);
    sum += weight;
    add_scaled(out, head.value(u), weight * head.kept(key, u), head.over.head_cols);
  }
  pass.log_sums[head.at(v)] = largest + std::log(sum);
  for (Count c = 0; c < head.over.head_cols; ++c) out[c] = sum == 0.0f ? 0.0f : out[c] / sum;
  of_values.finish();
}

/// The gradient of a query is the sum of p (g - mean) over its keys, as in grad_of_dst() above.
template <typename T>
inline void grad_of_query(const DotAttentionGrad& pass, const DotHead<T>& head, Count v) {
  const EdgeLists& edges = head.over.edges;
  const Count cols = head.over.head_cols;
  const T* grad = head.slice(pass.grad_out, v);
  const Philox4 key = head.key(v);
  const auto for_each_edge = [&](const auto& body) {
    for (Count e = edges.indptr[v]; e < edges.indptr[v + 1]; ++e) {
      const Count u = edges.indices[e];
      body(u, std::exp(head.score(u, v) - pass.log_sums[head.at(v)]),
           dot(grad, head.value(u), cols) * head.kept(key, u));
    }
  };
  float mean = 0.0f;
  for_each_edge([&](Count, float p, float g) { mean += p * g; });
  pass.means[head.at(v)] = mean;
  const Sum<T> sum = head.sum(pass.grad_queries, v);
  float* const out = sum.zeros();
  for_each_edge([&](Count u, float p, float g) { add_scaled(out, head.key_of(u), p * (g - mean), cols); });
  sum.finish();
}

template <typename T>
inline void grad_of_row(const DotAttentionGrad& pass, const DotHead<T>& head, Count u) {
  const EdgeLists& edges = head.over.out_edges;
  const Count cols = head.over.head_cols;
  const Sum<T> of_key = head.sum(pass.grad_rows, 2 * u), of_value = head.sum(pass.grad_rows, 2 * u + 1, 1);
  float *const grad_key = of_key.zeros(), *const grad_value = of_value.zeros();
  for (Count e = edges.indptr[u]; e < edges.indptr[u + 1]; ++e) {
    const Count v = edges.indices[e];
    const T* grad = head.slice(pass.grad_out, v);
    const float kept = head.kept(head.key(v), u);
    const float p = std::exp(head.score(u, v) - pass.log_sums[head.at(v)]);
    const float g = dot(grad, head.value(u), cols) * kept;
    add_scaled(grad_key, head.query(v), p * (g - pass.means[head.at(v)]), cols);
    add_scaled(grad_value, grad, p * kept, cols);
  }
  of_key.finish();
  of_value.finish();
}

/// Calls body(head, row) for all rows and heads, in pieces of equal work.
template <typename OneHead, typename Over, typename Body>
void for_heads(const Over& over, const Count* indptr, Count rows, const Body& body) {
  if (rows == 0) return;
  for_edges(indptr, rows, over.cols(), [&](Count begin, Count end) {
    constexpr bool kInPlace = std::is_same_v<typename OneHead::Element, float>;
    std::vector<float> beside(kInPlace ? 0 : strata::at(2 * over.head_cols));
    for (Count row = begin; row < end; ++row) {
      for (Count head = 0; head < over.heads; ++head) body(OneHead{{over, head, beside.data()}}, row);
    }
  });
}

template <template <typename> typename OneHead, typename T, typename Forward>
void run_forward(const Forward& pass) {
  for_heads<OneHead<T>>(pass.over, pass.over.edges.indptr, pass.over.edges.rows,
                        [&pass](const OneHead<T>& head, Count v) { attend(pass, head, v); });
}

template <typename T>
void run_backward(const EdgeAttentionGrad& pass) {
  for_heads<Head<T>>(pass.over, pass.over.edges.indptr, pass.over.edges.rows,
                     [&pass](const Head<T>& head, Count v) { grad_of_dst(pass, head, v); });
  for_heads<Head<T>>(pass.over, pass.over.out_edges.indptr, pass.over.num_src,
                     [&pass](const Head<T>& head, Count u) { grad_of_src(pass, head, u); });
}

template <typename T>
void run_backward(const DotAttentionGrad& pass) {
  for_heads<DotHead<T>>(pass.over, pass.over.edges.indptr, pass.over.edges.rows,
                        [&pass](const DotHead<T>& head, Count v) { grad_of_query(pass, head, v); });
  for_heads<DotHead<T>>(pass.over, pass.over.out_edges.indptr, pass.over.num_src,
                        [&pass](const DotHead<T>& head, Count u) { grad_of_row(pass, head, u); });
}

template <template <typename> typename OneHead, typename Forward>
void forward_of(const Forward& pass) {
  if (pass.over.dtype == DType::bf16) return run_forward<OneHead, Bf16>(pass);
  run_forward<OneHead, float>(pass);
}
template <typename Grad>
void backward_of(const Grad& pass) {
  if (pass.over.dtype == DType::bf16) return run_backward<Bf16>(pass);
  run_backward<float>(pass);
}

class CpuAttention final : public AttentionKernels {
 public:
  void head_dots(const HeadScores& dots, CUstream_st*) const override {
    const Count cols = dots.head_cols;
    if (dots.num_rows == 0) return;
    for_rows(dots.num_rows, dots.heads * cols, [&dots, cols](Count begin, Count end) {
      for (Count i = begin * dots.heads; i < end * dots.heads; ++i)
        dots.scores[i] = dot(dots.rows + i * cols, dots.weights + i % dots.heads * cols, cols);
    });
  }

  void forward(const EdgeAttentionForward& pass, CUstream_st*) const override { forward_of<Head>(pass); }
  void backward(const EdgeAttentionGrad& pass, CUstream_st*) const override { backward_of(pass); }
  void forward(const DotAttentionForward& pass, CUstream_st*) const override { forward_of<DotHead>(pass); }
  void backward(const DotAttentionGrad& pass, CUstream_st*) const override { backward_of(pass); }
};

}  // namespace

const AttentionKernels& cpu_attention_kernels() {
  static const CpuAttention kernels;
  return kernels;
}

}  // namespace strata::nn
