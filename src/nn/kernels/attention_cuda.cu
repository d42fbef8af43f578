// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.hpp"
#include "kernels/lanes.cuh"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

constexpr int kBlockThreads = 256;

unsigned grid_for(Count threads) {
  return static_cast<unsigned>((threads + kBlockThreads - 1) / kBlockThreads);
}

__device__ inline Count thread_index() {
  return static_cast<Count>(blockIdx.x) * kBlockThreads + threadIdx.x;
}

/// The work of a group of Lanes threads: one head of one row, and a window [first, first + Lanes * Width)
/// of its columns. Each thread has Width columns.
template <int Width, int Lanes>
struct Item {
  Count row, head, column;  ///< column: this thread's first column of the head
  bool first_window, in_row;

  template <typename Over>
  __device__ explicit Item(const Over& over) {
    const Count windows = (over.head_cols + Lanes * Width - 1) / (Lanes * Width);
    const Count group = thread_index() / Lanes, window = group % windows;
    row = group / windows / over.heads;
    head = group / windows % over.heads;
    column = (window * Lanes + threadIdx.x % Lanes) * Width;
    first_window = window == 0;
    in_row = column < over.head_cols;
  }
  template <typename Over>
  __device__ Count offset(const Over& over, Count r) const {
    return r * over.cols() + head * over.head_cols;
  }
  template <typename Over, typename T>
  __device__ Floats<Width> load(const Over& over, const T* rows, Count r) const {
    return in_row ? load_as_f32<Width>(rows + offset(over, r) + column) : Floats<Width>::filled(0.0f);
  }
  __device__ bool leads() const { return first_window && threadIdx.x % Lanes == 0; }
};

template <int Width, int Lanes, typename Over>
Count threads_of(const Over& over, Count rows) {
  return rows * over.heads * ((over.head_cols + Lanes * Width - 1) / (Lanes * Width)) * Lanes;
}

/// The dot product of a head's columns of two rows, with the same bits in every thread of the group. Whole: a
/// single window holds all columns, which the threads have already loaded.
template <int Width, int Lanes, bool Whole, typename Over, typename T>
__device__ inline float head_dot(const Over& over, const T* a, const T* b, const Floats<Width>& part_of_a,
                                 const Floats<Width>& part_of_b) {
  float sum = 0.0f;
  if constexpr (Whole) {
    sum = dot(part_of_a, part_of_b, sum);
  } else {
    for (Count c = threadIdx.x % Lanes * Width; c < over.head_cols; c += Lanes * Width)
      sum = dot(load_as_f32<Width>(a + c), load_as_f32<Width>(b + c), sum);
  }
  return sum_of_group<Lanes>(sum);
}

// Not inlined, because the registers of Philox would halve the number of threads where nothing is dropped.
__noinline__ __device__ float kept_scale_of(const EdgeDropout& dropout, const Philox4& key, Count u,
                                            Count head, float scale) {
  return keeps_edge(dropout, key, u, static_cast<std::uint32_t>(head)) ? scale : 0.0f;
}
template <typename Over>
__device__ inline float kept_scale(const Over& over, const Philox4& key, Count u, Count head, float scale) {
  if (!over.dropout.active()) return 1.0f;
  return kept_scale_of(over.dropout, key, u, head, scale);
}
template <typename Over>
__device__ inline Philox4 key_of(const Over& over, Count v) {
  return over.dropout.active() ? edge_key(over.dropout, v) : Philox4{};
}

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

// The gradient of a src node's row and score in one gather of the dst nodes' gradients.
template <typename T, int Width, int Lanes, bool Whole>
__global__ void __launch_bounds__(kBlockThreads) grad_src_kernel(EdgeAttentionGrad pass, float scale) {
  const EdgeAttention& over = pass.over;
  const T *const rows = static_cast<const T*>(over.rows), *const grads = static_cast<const T*>(pass.grad_out);
  const Item<Width, Lanes> item(over);
  const Count u = item.row, head = item.head;
  if (u >= over.num_src) return;
  const auto mine = item.load(over, rows, u);
  auto total = Floats<Width>::filled(0.0f);
  float grad_score = 0.0f;
  const auto add_edge = [&](Count v, float counts) {
    const float raw = over.raw_score(u, v, head);
    const float p = counts * expf(leaky_relu(raw, over.slope) - pass.log_sums[v * over.heads + head]);
    const Philox4 key = key_of(over, v);
    const float kept = kept_scale(over, key, u, head, scale);
    const auto grad = item.load(over, grads, v);
    const float g = head_dot<Width, Lanes, Whole>(over, grads + item.offset(over, v),
                                                  rows + item.offset(over, u), grad, mine);
    grad_score += p * (g * kept - pass.means[v * over.heads + head]) * leaky_slope(raw, over.slope);
    add_scaled(total, grad, p * kept);
  };
  if (over.has_loop(u)) add_edge(u, 1.0f);
  const Count end = __ldg(over.out_edges.indptr + u + 1);
#pragma unroll 2
  for (Count e = __ldg(over.out_edges.indptr + u); e < end; ++e) {
    const Count v = __ldg(over.out_edges.indices + e);
    add_edge(v, over.leaves_out(u, v) ? 0.0f : 1.0f);
  }
  if (item.leads()) pass.grad_src_scores[u * over.heads + head] = grad_score;
  if (!item.in_row) return;
  const Count weights_at = head * over.head_cols + item.column;
  if (pass.src_weights != nullptr)
    add_scaled(total, load_as_f32<Width>(pass.src_weights + weights_at), grad_score);
  if (pass.dst_weights != nullptr && u < over.edges.rows) {
    add_scaled(total, load_as_f32<Width>(pass.dst_weights + weights_at),
               pass.grad_dst_scores[u * over.heads + head]);
  }
  store_f32(total, static_cast<T*>(pass.grad_rows) + item.offset(over, u) + item.column);
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

/// Dot products and slices of rows for the kernels of DotAttention, where row 2 u is the key of u, and row
/// 2 u + 1 its value.
template <typename T, int Width, int Lanes, bool Whole>
struct DotItem : Item<Width, Lanes> {
  const DotAttention& over;
  const T *queries, *rows;

  __device__ explicit DotItem(const DotAttention& all)
      : Item<Width, Lanes>(all),
        over(all),
        queries(static_cast<const T*>(all.queries)),
        rows(static_cast<const T*>(all.rows)) {}
  __device__ Floats<Width> of(const T* table, Count r) const { return this->load(over, table, r); }
  __device__ float product(const T* a, Count at_a, const T* b, Count at_b, const Floats<Width>& part_of_a,
                           const Floats<Width>& part_of_b) const {
    return head_dot<Width, Lanes, Whole>(over, a + this->offset(over, at_a), b + this->offset(over, at_b),
                                         part_of_a, part_of_b);
  }
  __device__ void store(const Floats<Width>& part, void* table, Count r) const {
    if (this->in_row) store_f32(part, static_cast<T*>(table) + this->offset(over, r) + this->column);
  }
};

// Each key and each value is read once, as the softmax is corrected whenever a score is the largest so far.
// Reading them from L2 or HBM bounds the time.
template <typename T, int Width, int Lanes, bool Whole>
__global__ void __launch_bounds__(kBlockThreads) dot_attend_kernel(DotAttentionForward pass, float scale) {
  const DotAttention& over = pass.over;
  const DotItem<T, Width, Lanes, Whole> item(over);
  const Count v = item.row;
  if (v >= over.edges.rows) return;
  const Philox4 kept_by = key_of(over, v);
  const auto query = item.of(item.queries, v);
  auto total = Floats<Width>::filled(0.0f);
  float largest = -INFINITY, sum = 0.0f;
  const Count end = __ldg(over.edges.indptr + v + 1);
#pragma unroll 2
  for (Count e = __ldg(over.edges.indptr + v); e < end; ++e) {
    const Count u = __ldg(over.edges.indices + e);
    const auto key = item.of(item.rows, 2 * u), value = item.of(item.rows, 2 * u + 1);
    const float score = item.product(item.queries, v, item.rows, 2 * u, query, key);
    const float most = fmaxf(largest, score), shrunk = expf(largest - most), weight = expf(score - most);
    largest = most;
    sum = sum * shrunk + weight;
    const float kept = weight * kept_scale(over, kept_by, u, item.head, scale);
#pragma unroll
    for (int i = 0; i < Width; ++i) total.value[i] = total.value[i] * shrunk + kept * value.value[i];
  }
  if (item.leads()) pass.log_sums[v * over.heads + item.head] = largest + logf(sum);
#pragma unroll
  for (int i = 0; i < Width; ++i) total.value[i] = sum == 0.0f ? 0.0f : total.value[i] / sum;
  item.store(total, pass.out, v);
}

// The gradient of a query is the sum of p (g - mean) over its keys, where g is the gradient of p; mean, the sum
// of p g, is known at the end.
template <typename T, int Width, int Lanes, bool Whole>
__global__ void __launch_bounds__(kBlockThreads) dot_grad_dst_kernel(DotAttentionGrad pass, float scale) {
  const DotAttention& over = pass.over;
  const DotItem<T, Width, Lanes, Whole> item(over);
  const Count v = item.row;
  if (v >= over.edges.rows) return;
  const T* const grads = static_cast<const T*>(pass.grad_out);
  const float log_sum = pass.log_sums[v * over.heads + item.head];
  const Philox4 kept_by = key_of(over, v);
  const auto query = item.of(item.queries, v), grad = item.of(grads, v);
  auto sloped_keys = Floats<Width>::filled(0.0f), keys = Floats<Width>::filled(0.0f);
  float mean = 0.0f;
  const Count end = __ldg(over.edges.indptr + v + 1);
#pragma unroll 2
  for (Count e = __ldg(over.edges.indptr + v); e < end; ++e) {
    const Count u = __ldg(over.edges.indices + e);
    const auto key = item.of(item.rows, 2 * u), value = item.of(item.rows, 2 * u + 1);
    const float p = expf(item.product(item.queries, v, item.rows, 2 * u, query, key) - log_sum);
    const float g = item.product(grads, v, item.rows, 2 * u + 1, grad, value) *
                    kept_scale(over, kept_by, u, item.head, scale);
    mean += p * g;
    add_scaled(sloped_keys, key, p * g);
    add_scaled(keys, key, p);
  }
  if (item.leads()) pass.means[v * over.heads + item.head] = mean;
  add_scaled(sloped_keys, keys, -mean);
  item.store(sloped_keys, pass.grad_queries, v);
}

// The gradients of a key and its value in one gather of the dst nodes' queries and gradients.
template <typename T, int Width, int Lanes, bool Whole>
__global__ void __launch_bounds__(kBlockThreads) dot_grad_src_kernel(DotAttentionGrad pass, float scale) {
  const DotAttention& over = pass.over;
  const DotItem<T, Width, Lanes, Whole> item(over);
  const Count u = item.row;
  if (u >= over.num_src) return;
  const T* const grads = static_cast<const T*>(pass.grad_out);
  auto grad_key = Floats<Width>::filled(0.0f), grad_value = Floats<Width>::filled(0.0f);
  Count e = __ldg(over.out_edges.indptr + u);
  const Count end = __ldg(over.out_edges.indptr + u + 1);
  if (e < end) {  // rows behind the last pair have none, and hold anything
    const auto key = item.of(item.rows, 2 * u), value = item.of(item.rows, 2 * u + 1);
#pragma unroll 2
    for (; e < end; ++e) {
      const Count v = __ldg(over.out_edges.indices + e), at = v * over.heads + item.head;
      const auto query = item.of(item.queries, v), grad = item.of(grads, v);
      const float p =
          expf(item.product(item.queries, v, item.rows, 2 * u, query, key) - __ldg(pass.log_sums + at));
      const float kept = kept_scale(over, key_of(over, v), u, item.head, scale);
      const float g = item.product(grads, v, item.rows, 2 * u + 1, grad, value) * kept;
      add_scaled(grad_key, query, p * (g - pass.means[at]));
      add_scaled(grad_value, grad, p * kept);
    }
  }
  item.store(grad_key, pass.grad_rows, 2 * u);
  item.store(grad_value, pass.grad_rows, 2 * u + 1);
}

template <typename T>
void dot_forward_as(const DotAttentionForward& pass, cudaStream_t stream) {
  const DotAttention& over = pass.over;
  const auto launch = [&]<int Width, int Lanes>() {
    const unsigned grid = grid_for(threads_of<Width, Lanes>(over, over.edges.rows));
    const float scale = over.dropout.scale();
    if (over.head_cols <= Lanes * Width)
      dot_attend_kernel<T, Width, Lanes, true><<<grid, kBlockThreads, 0, stream>>>(pass, scale);
    else
      dot_attend_kernel<T, Width, Lanes, false><<<grid, kBlockThreads, 0, stream>>>(pass, scale);
    cuda::check_launch("dot_attend");
  };
  with_widest_packs<T>(over.head_cols, launch, static_cast<const T*>(over.queries),
                       static_cast<const T*>(over.rows), static_cast<const T*>(pass.out));
}

template <typename T, int Width, int Lanes, bool Whole>
void launch_dot_backward(const DotAttentionGrad& pass, cudaStream_t stream) {
  const DotAttention& over = pass.over;
  const float scale = over.dropout.scale();
  if (over.edges.rows > 0) {
    dot_grad_dst_kernel<T, Width, Lanes, Whole>
        <<<grid_for(threads_of<Width, Lanes>(over, over.edges.rows)), kBlockThreads, 0, stream>>>(pass,
                                                                                                  scale);
    cuda::check_launch("dot_attention_grad_dst");
  }
  if (over.num_src == 0) return;
  dot_grad_src_kernel<T, Width, Lanes, Whole>
      <<<grid_for(threads_of<Width, Lanes>(over, over.num_src)), kBlockThreads, 0, stream>>>(pass, scale);
  cuda::check_launch("dot_attention_grad_src");
}

template <typename T>
void dot_backward_as(const DotAttentionGrad& pass, cudaStream_t stream) {
  const DotAttention& over = pass.over;
  const auto launch = [&]<int Width, int Lanes>() {
    if (over.head_cols <= Lanes * Width)
      launch_dot_backward<T, Width, Lanes, true>(pass, stream);
    else
      launch_dot_backward<T, Width, Lanes, false>(pass, stream);
  };
  with_widest_packs<T>(over.head_cols, launch, static_cast<const T*>(over.queries),
                       static_cast<const T*>(over.rows), static_cast<const T*>(pass.grad_out),
                       static_cast<const T*>(pass.grad_queries), static_cast<const T*>(pass.grad_rows));
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
    if (pass.over.edges.rows == 0) return;
    if (pass.over.dtype == DType::bf16) return dot_forward_as<Bf16>(pass, stream);
    dot_forward_as<float>(pass, stream);
  }

  void backward(const DotAttentionGrad& pass, CUstream_st* stream) const override {
    if (pass.over.dtype == DType::bf16) return dot_backward_as<Bf16>(pass, stream);
    dot_backward_as<float>(pass, stream);
  }
};

}  // namespace

const AttentionKernels& cuda_attention_kernels() {
  static const CudaAttention kernels;
  return kernels;
}

}  // namespace strata::nn
