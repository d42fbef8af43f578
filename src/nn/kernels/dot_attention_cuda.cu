// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_items.cuh"
#include "kernels/edge_kernels.hpp"
#include "strata/cuda/check.cuh"

namespace strata::nn {
namespace {

/// Dot products and slices of rows for the kernels of DotAttention, where row 2 u is the key of u, and row
/// 2 u + 1 its value.
template <typename T, int Width, int Lanes, bool Whole>
struct DotItem : Item<Width, Lanes> {
  const DotAttention& over;
  const T *queries, *rows;

  __device__ explicit DotItem(const DotAttention& all) : DotItem(all, thread_index() / Lanes) {}
  __device__ DotItem(const DotAttention& all, Count group)
      : Item<Width, Lanes>(all, group),
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

/// How far a kernel knows what it is launched for. Whole: a single window holds all columns. Drops: edges may be
/// dropped; without, no call in the loop over edges takes registers.
template <bool WholeRows, bool DropsEdges>
struct Known {
  static constexpr bool kWhole = WholeRows, kDrops = DropsEdges;
};

template <typename Knows>
__device__ Philox4 kept_by(const DotAttention& over, Count v) {
  if constexpr (Knows::kDrops) return key_of(over, v);
  return {};
}
template <typename Knows>
__device__ float times_kept(const DotAttention& over, const Philox4& key, Count u, Count head, float scale) {
  if constexpr (Knows::kDrops) return kept_scale(over, key, u, head, scale);
  return 1.0f;
}

// Each key and each value is read once, as the softmax is corrected whenever a score is the largest so far.
// Reading them from L2 or HBM bounds the time.
template <typename T, int Width, int Lanes, typename Knows>
__global__ void __launch_bounds__(kBlockThreads) dot_attend_kernel(DotAttentionForward pass, float scale) {
  const DotAttention& over = pass.over;
  const DotItem<T, Width, Lanes, Knows::kWhole> item(over);
  const Count v = item.row;
  if (v >= over.edges.rows) return;
  const Philox4 key_of_v = kept_by<Knows>(over, v);
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
    const float kept = weight * times_kept<Knows>(over, key_of_v, u, item.head, scale);
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
template <typename T, int Width, int Lanes, typename Knows>
__global__ void __launch_bounds__(kBlockThreads) dot_grad_dst_kernel(DotAttentionGrad pass, float scale) {
  const DotAttention& over = pass.over;
  const DotItem<T, Width, Lanes, Knows::kWhole> item(over);
  const Count v = item.row;
  if (v >= over.edges.rows) return;
  const T* const grads = static_cast<const T*>(pass.grad_out);
  const float log_sum = pass.log_sums[v * over.heads + item.head];
  const Philox4 key_of_v = kept_by<Knows>(over, v);
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
                    times_kept<Knows>(over, key_of_v, u, item.head, scale);
    mean += p * g;
    add_scaled(sloped_keys, key, p * g);
    add_scaled(keys, key, p);
  }
  if (item.leads()) pass.means[v * over.heads + item.head] = mean;
  add_scaled(sloped_keys, keys, -mean);
  item.store(sloped_keys, pass.grad_queries, v);
}

/// What a source's edges add to the gradients of its key and its value.
template <int Width>
struct PairGrad {
  Floats<Width> key = Floats<Width>::filled(0.0f), value = Floats<Width>::filled(0.0f);

  __device__ void add(const PairGrad& other) {
    add_scaled(key, other.key, 1.0f);
    add_scaled(value, other.value, 1.0f);
  }
};

// The gradients of a key and its value in one gather of the dst nodes' queries and gradients.
template <typename T, int Width, int Lanes, typename Knows>
__global__ void __launch_bounds__(kBlockThreads) dot_grad_src_kernel(DotAttentionGrad pass, float scale) {
  using Part = DotItem<T, Width, Lanes, Knows::kWhole>;
  const DotAttention& over = pass.over;
  const T* const grads = static_cast<const T*>(pass.grad_out);
  const auto sum_of = [&](const Part& item, Count begin, Count end) {
    const Count u = item.row;
    PairGrad<Width> sum;
    if (begin == end) return sum;  // rows behind the last pair hold anything
    const auto key = item.of(item.rows, 2 * u), value = item.of(item.rows, 2 * u + 1);
#pragma unroll 2
    for (Count e = begin; e < end; ++e) {
      const Count v = __ldg(over.out_edges.indices + e), at = v * over.heads + item.head;
      const auto query = item.of(item.queries, v), grad = item.of(grads, v);
      const float p =
          expf(item.product(item.queries, v, item.rows, 2 * u, query, key) - __ldg(pass.log_sums + at));
      const float kept = times_kept<Knows>(over, kept_by<Knows>(over, v), u, item.head, scale);
      const float g = item.product(grads, v, item.rows, 2 * u + 1, grad, value) * kept;
      add_scaled(sum.key, query, p * (g - pass.means[at]));
      add_scaled(sum.value, grad, p * kept);
    }
    return sum;
  };
  const auto finish = [&](const Part& item, const PairGrad<Width>& sum) {
    item.store(sum.key, pass.grad_rows, 2 * item.row);
    item.store(sum.value, pass.grad_rows, 2 * item.row + 1);
  };
  sum_lists<Part, Lanes, Knows::kWhole>(over, over.out_edges, true, sum_of, finish);
}

/// Calls launch.template operator()<Known<...>>() with what is known of a pass.
template <int Width, int Lanes, typename Launch>
void with_known(const DotAttention& over, const Launch& launch) {
  if (over.head_cols > Lanes * Width) return launch.template operator()<Known<false, true>>();
  if (over.dropout.active()) return launch.template operator()<Known<true, true>>();
  launch.template operator()<Known<true, false>>();
}

template <typename T>
void dot_forward_as(const DotAttentionForward& pass, cudaStream_t stream) {
  const DotAttention& over = pass.over;
  const auto launch = [&]<int Width, int Lanes>() {
    with_known<Width, Lanes>(over, [&]<typename Knows>() {
      dot_attend_kernel<T, Width, Lanes, Knows>
          <<<grid_for(threads_of<Width, Lanes>(over, over.edges.rows)), kBlockThreads, 0, stream>>>(
              pass, over.dropout.scale());
    });
    cuda::check_launch("dot_attend");
  };
  with_widest_packs<T>(over.head_cols, launch, static_cast<const T*>(over.queries),
                       static_cast<const T*>(over.rows), static_cast<const T*>(pass.out));
}

template <typename T, int Width, int Lanes, typename Knows>
void launch_dot_backward(const DotAttentionGrad& pass, cudaStream_t stream) {
  const DotAttention& over = pass.over;
  const float scale = over.dropout.scale();
  if (over.edges.rows > 0) {
    dot_grad_dst_kernel<T, Width, Lanes, Knows>
        <<<grid_for(threads_of<Width, Lanes>(over, over.edges.rows)), kBlockThreads, 0, stream>>>(pass,
                                                                                                  scale);
    cuda::check_launch("dot_attention_grad_dst");
  }
  if (over.num_src == 0) return;
  dot_grad_src_kernel<T, Width, Lanes, Knows>
      <<<grid_for(threads_of<Width, Lanes>(over, over.num_src)), kBlockThreads, 0, stream>>>(pass, scale);
  cuda::check_launch("dot_attention_grad_src");
}

template <typename T>
void dot_backward_as(const DotAttentionGrad& pass, cudaStream_t stream) {
  const DotAttention& over = pass.over;
  const auto launch = [&]<int Width, int Lanes>() {
    with_known<Width, Lanes>(
        over, [&]<typename Knows>() { launch_dot_backward<T, Width, Lanes, Knows>(pass, stream); });
  };
  with_widest_packs<T>(over.head_cols, launch, static_cast<const T*>(over.queries),
                       static_cast<const T*>(over.rows), static_cast<const T*>(pass.grad_out),
                       static_cast<const T*>(pass.grad_queries), static_cast<const T*>(pass.grad_rows));
}

}  // namespace

void dot_attention_cuda(const DotAttentionForward& pass, CUstream_st* stream) {
  if (pass.over.edges.rows == 0) return;
  if (pass.over.dtype == DType::bf16) return dot_forward_as<Bf16>(pass, stream);
  dot_forward_as<float>(pass, stream);
}

void dot_attention_grad_cuda(const DotAttentionGrad& pass, CUstream_st* stream) {
  if (pass.over.dtype == DType::bf16) return dot_backward_as<Bf16>(pass, stream);
  dot_backward_as<float>(pass, stream);
}

}  // namespace strata::nn
