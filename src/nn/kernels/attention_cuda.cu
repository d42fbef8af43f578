// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_items.cuh"
#include "kernels/edge_kernels.hpp"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

// One group per head of a row; reads the rows once.
template <int Width, int Lanes>
__global__ void __launch_bounds__(kBlockThreads) head_dots_kernel(HeadScores dots) {
  const Count group = thread_index() / Lanes;
  if (group >= dots.num_rows * dots.heads) return;
  const float* row = dots.rows + group * dots.head_cols;
  const float* weights = dots.weights + group % dots.heads * dots.head_cols;
  float sum = 0.0f;
  for (Count c = threadIdx.x % Lanes * Width; c < dots.head_cols; c += Lanes * Width)
    sum = dot(Floats<Width>::load(row + c), Floats<Width>::load(weights + c), sum);
  sum = sum_of_group<Lanes>(sum);
  if (threadIdx.x % Lanes == 0) dots.scores[group] = sum;
}

/// The weight with which an edge counts.
__device__ inline float times(const EdgeAttention& over, Count e) {
  return over.edge_weights == nullptr ? 1.0f : __ldg(over.edge_weights + e);
}

// One thread per head of a dst node: maximum and sum in one pass over its scores, with one sector per edge.
__global__ void __launch_bounds__(kBlockThreads) log_sums_kernel(EdgeAttentionForward pass) {
  const EdgeAttention& over = pass.over;
  const Count v = thread_index() / over.heads, head = thread_index() % over.heads;
  if (v >= over.edges.rows) return;
  float largest = -INFINITY, sum = 0.0f;
  if (over.has_loop(v)) largest = leaky_relu(over.raw_score(v, v, head), over.slope), sum = 1.0f;
  const Count end = __ldg(over.edges.indptr + v + 1);
#pragma unroll 4
  for (Count e = __ldg(over.edges.indptr + v); e < end; ++e) {
    const Count u = __ldg(over.edges.indices + e);
    const float score = leaky_relu(over.raw_score(u, v, head), over.slope), counts = times(over, e);
    if (over.leaves_out(u, v) || counts == 0.0f) continue;
    if (score > largest) {
      sum = sum * expf(largest - score) + counts;
      largest = score;
    } else {
      sum += counts * expf(score - largest);
    }
  }
  pass.log_sums[v * over.heads + head] = largest + logf(sum);
}

// The weighted sum of the in-neighbors' rows. Reading the row of every edge from L2 or HBM bounds the time.
template <typename T, int Width, int Lanes>
__global__ void __launch_bounds__(kBlockThreads) attend_kernel(EdgeAttentionForward pass, float scale) {
  const EdgeAttention& over = pass.over;
  const T* const rows = static_cast<const T*>(over.rows);
  const Item<Width, Lanes> item(over);
  const Count v = item.row;
  if (v >= over.edges.rows || !item.in_row) return;
  const float log_sum = pass.log_sums[v * over.heads + item.head];
  const Philox4 key = key_of(over, v);
  const auto weight = [&](Count u) {
    return expf(leaky_relu(over.raw_score(u, v, item.head), over.slope) - log_sum) *
           kept_scale(over, key, u, item.head, scale);
  };
  auto total = Floats<Width>::filled(0.0f);
  if (over.has_loop(v)) add_scaled(total, item.load(over, rows, v), weight(v));
  const Count end = __ldg(over.edges.indptr + v + 1);
#pragma unroll 4
  for (Count e = __ldg(over.edges.indptr + v); e < end; ++e) {
    const Count u = __ldg(over.edges.indices + e);
    const float counts = times(over, e);
    const bool none = over.leaves_out(u, v) || counts == 0.0f;
    add_scaled(total, item.load(over, rows, u), none ? 0.0f : counts * weight(u));
  }
  store_f32(total, static_cast<T*>(pass.out) + item.offset(over, v) + item.column);
}

// The gradient of the dst scores, and the mean that the gradient of every score of the node needs. Gathers
// the rows once; only the first window reads rows that are wider than a window, in a loop.
template <typename T, int Width, int Lanes, bool Whole>
__global__ void __launch_bounds__(kBlockThreads) grad_dst_kernel(EdgeAttentionGrad pass, float scale) {
  const EdgeAttention& over = pass.over;
  const T *const rows = static_cast<const T*>(over.rows), *const grads = static_cast<const T*>(pass.grad_out);
  const Item<Width, Lanes> item(over);
  const Count v = item.row, head = item.head;
  if (v >= over.edges.rows || !item.first_window) return;
  const float log_sum = pass.log_sums[v * over.heads + head];
  const Philox4 key = key_of(over, v);
  const auto grad = item.load(over, grads, v);
  float mean = 0.0f, sloped_mean = 0.0f, slopes = 0.0f;
  const auto add_edge = [&](Count u, float counts) {
    const float raw = over.raw_score(u, v, head);
    const float p = counts * expf(leaky_relu(raw, over.slope) - log_sum);
    const float g =
        head_dot<Width, Lanes, Whole>(over, grads + item.offset(over, v), rows + item.offset(over, u), grad,
                                      item.load(over, rows, u)) *
        kept_scale(over, key, u, head, scale);
    mean += p * g;
    sloped_mean += p * g * leaky_slope(raw, over.slope);
    slopes += p * leaky_slope(raw, over.slope);
  };
  if (over.has_loop(v)) add_edge(v, 1.0f);
  const Count end = __ldg(over.edges.indptr + v + 1);
#pragma unroll 2
  for (Count e = __ldg(over.edges.indptr + v); e < end; ++e) {
    const Count u = __ldg(over.edges.indices + e);
    add_edge(u, over.leaves_out(u, v) ? 0.0f : 1.0f);
  }
  if (!item.leads()) return;
  pass.means[v * over.heads + head] = mean;
  pass.grad_dst_scores[v * over.heads + head] = sloped_mean - mean * slopes;
}

/// What a src node's edges add to the gradients of its row and its score.
template <int Width>
struct SrcGrad {
  Floats<Width> row = Floats<Width>::filled(0.0f);
  float score = 0.0f;

  __device__ void add(const SrcGrad& other) {
    add_scaled(row, other.row, 1.0f);
    score += other.score;
  }
};

// The gradient of a src node's row and score in one gather of the dst nodes' gradients. Lists with self-loops, whose
// sums have an order of their own, are not split.
template <typename T, int Width, int Lanes, bool Whole>
__global__ void __launch_bounds__(kBlockThreads) grad_src_kernel(EdgeAttentionGrad pass, float scale) {
  using Part = Item<Width, Lanes>;
  const EdgeAttention& over = pass.over;
  const T *const rows = static_cast<const T*>(over.rows), *const grads = static_cast<const T*>(pass.grad_out);
  const auto sum_of = [&](const Part& item, Count begin, Count end) {
    const Count u = item.row, head = item.head;
    SrcGrad<Width> sum;
    if (begin == end && !over.has_loop(u)) return sum;  // its row may hold anything
    const auto mine = item.load(over, rows, u);
    const auto add_edge = [&](Count v, float counts) {
      const float raw = over.raw_score(u, v, head);
      const float p = counts * expf(leaky_relu(raw, over.slope) - pass.log_sums[v * over.heads + head]);
      const float kept = kept_scale(over, key_of(over, v), u, head, scale);
      const auto grad = item.load(over, grads, v);
      const float g = head_dot<Width, Lanes, Whole>(over, grads + item.offset(over, v),
                                                    rows + item.offset(over, u), grad, mine);
      sum.score += p * (g * kept - pass.means[v * over.heads + head]) * leaky_slope(raw, over.slope);
      add_scaled(sum.row, grad, p * kept);
    };
    if (over.has_loop(u)) add_edge(u, 1.0f);
#pragma unroll 2
    for (Count e = begin; e < end; ++e) {
      const Count v = __ldg(over.out_edges.indices + e);
      add_edge(v, over.leaves_out(u, v) ? 0.0f : 1.0f);
    }
    return sum;
  };
  const auto finish = [&](const Part& item, SrcGrad<Width> sum) {
    const Count u = item.row, head = item.head;
    if (item.leads()) pass.grad_src_scores[u * over.heads + head] = sum.score;
    if (!item.in_row) return;
    const Count weights_at = head * over.head_cols + item.column;
    if (pass.src_weights != nullptr)
      add_scaled(sum.row, load_as_f32<Width>(pass.src_weights + weights_at), sum.score);
    if (pass.dst_weights != nullptr && u < over.edges.rows) {
      add_scaled(sum.row, load_as_f32<Width>(pass.dst_weights + weights_at),
                 pass.grad_dst_scores[u * over.heads + head]);
    }
    store_f32(sum.row, static_cast<T*>(pass.grad_rows) + item.offset(over, u) + item.column);
  };
  sum_lists<Part, Lanes, Whole>(over, over.out_edges, !over.self_loops, sum_of, finish);
}

template <typename T, int Width, int Lanes>
void launch_forward(const EdgeAttentionForward& pass, cudaStream_t stream) {
  const EdgeAttention& over = pass.over;
  attend_kernel<T, Width, Lanes>
      <<<grid_for(threads_of<Width, Lanes>(over, over.edges.rows)), kBlockThreads, 0, stream>>>(
          pass, over.dropout.scale());
  cuda::check_launch("attend");
}

template <typename T, int Width, int Lanes, bool Whole>
void launch_backward(const EdgeAttentionGrad& pass, cudaStream_t stream) {
  const EdgeAttention& over = pass.over;
  const float scale = over.dropout.scale();
  if (over.edges.rows > 0) {
    grad_dst_kernel<T, Width, Lanes, Whole>
        <<<grid_for(threads_of<Width, Lanes>(over, over.edges.rows)), kBlockThreads, 0, stream>>>(pass,
                                                                                                  scale);
    cuda::check_launch("attention_grad_dst");
  }
  grad_src_kernel<T, Width, Lanes, Whole>
      <<<grid_for(threads_of<Width, Lanes>(over, over.num_src)), kBlockThreads, 0, stream>>>(pass, scale);
  cuda::check_launch("attention_grad_src");
}

/// Calls launch<Width, Lanes>(). In bf16, rows are so short that a thread with two loads per row hides their
/// latency better.
template <typename T, typename Launch, typename... Elements>
void with_widest_rows(Count cols, const Launch& launch, const Elements*... tables) {
  if constexpr (sizeof(T) == 2) {
    if (pack_fits(16, cols, tables...)) return with_lanes<16>(cols, launch);
  }
  with_widest_packs<T>(cols, launch, tables...);
}

template <typename T>
void forward_as(const EdgeAttentionForward& pass, cudaStream_t stream) {
  const EdgeAttention& over = pass.over;
  with_widest_rows<T>(
      over.head_cols, [&]<int Width, int Lanes>() { launch_forward<T, Width, Lanes>(pass, stream); },
      static_cast<const T*>(over.rows), static_cast<const T*>(pass.out));
}

template <typename T>
void backward_as(const EdgeAttentionGrad& pass, cudaStream_t stream) {
  const EdgeAttention& over = pass.over;
  const auto launch = [&]<int Width, int Lanes>() {
    if (over.head_cols <= Lanes * Width)
      launch_backward<T, Width, Lanes, true>(pass, stream);
    else
      launch_backward<T, Width, Lanes, false>(pass, stream);
  };
  with_widest_rows<T>(over.head_cols, launch, static_cast<const T*>(over.rows),
                      static_cast<const T*>(pass.grad_out), static_cast<const T*>(pass.grad_rows),
                      pass.src_weights, pass.dst_weights);
}

class CudaAttention final : public AttentionKernels {
 public:
  void head_dots(const HeadScores& dots, CUstream_st* stream) const override {
    if (dots.num_rows == 0) return;
    with_width_and_lanes(
        pack_width(dots.head_cols, dots.rows, dots.weights), dots.head_cols, [&]<int Width, int Lanes>() {
          head_dots_kernel<Width, Lanes>
              <<<grid_for(dots.num_rows * dots.heads * Lanes), kBlockThreads, 0, stream>>>(dots);
        });
    cuda::check_launch("head_dots");
  }

  void forward(const EdgeAttentionForward& pass, CUstream_st* stream) const override {
    const EdgeAttention& over = pass.over;
    if (over.edges.rows == 0) return;
    log_sums_kernel<<<grid_for(over.edges.rows * over.heads), kBlockThreads, 0, stream>>>(pass);
    cuda::check_launch("attention_log_sums");
    if (over.dtype == DType::bf16) return forward_as<Bf16>(pass, stream);
    forward_as<float>(pass, stream);
  }

  void backward(const EdgeAttentionGrad& pass, CUstream_st* stream) const override {
    if (pass.over.num_src == 0) return;
    if (pass.over.dtype == DType::bf16) return backward_as<Bf16>(pass, stream);
    backward_as<float>(pass, stream);
  }

  void forward(const DotAttentionForward& pass, CUstream_st* stream) const override {
    dot_attention_cuda(pass, stream);
  }
  void backward(const DotAttentionGrad& pass, CUstream_st* stream) const override {
    dot_attention_grad_cuda(pass, stream);
  }
};

}  // namespace

const AttentionKernels& cuda_attention_kernels() {
  static const CudaAttention kernels;
  return kernels;
}

}  // namespace strata::nn
