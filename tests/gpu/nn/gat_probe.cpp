// Temporary: where the time of a GAT step goes at the products shape.
#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "gat_kernels.hpp"
#include "ops.hpp"
#include "strata/nn/model.hpp"

namespace strata::nn {
namespace {

const c10::Device kGpu(c10::kCUDA, 0);
const at::TensorOptions kF = at::TensorOptions().dtype(at::kFloat).device(kGpu);

template <typename Work>
double ms(const Work& work) {
  for (int i = 0; i < 3; ++i) work();
  cudaEvent_t a, b;
  cudaEventCreate(&a);
  cudaEventCreate(&b);
  auto s = c10::cuda::getCurrentCUDAStream(0).stream();
  cudaEventRecord(a, s);
  for (int i = 0; i < 10; ++i) work();
  cudaEventRecord(b, s);
  cudaEventSynchronize(b);
  float t = 0;
  cudaEventElapsedTime(&t, a, b);
  return t / 10;
}

struct Random {
  sampling::Block block;
  at::Tensor indices, counts, tptr, tind, ids, orig;
  Random(Count dst, Count src, int k, bool global) {
    const auto i32 = kF.dtype(at::kInt);
    indices = at::randint(global ? 2400000 : src, {dst * k}, i32);
    counts = at::full({dst}, k, i32);
    ids = global ? at::randint(2400000, {dst}, kF.dtype(at::kLong)) : at::arange(src, kF.dtype(at::kLong));
    orig = at::arange(src, kF.dtype(at::kLong));
    block.device = {Device::Kind::cuda, 0};
    block.num_dst = dst;
    block.num_src = global ? dst : src;
    block.num_edges = dst * k;
    block.indices = indices.const_data_ptr<std::int32_t>();
    block.counts = counts.const_data_ptr<std::int32_t>();
    block.stride = k;
    block.global_indices = global;
    block.src_nodes = ids.const_data_ptr<NodeId>();
    block.src_original_ids = orig.const_data_ptr<NodeId>();
    if (!global) {
      // new nodes are met once each, then some again
      at::Tensor fresh = at::arange(dst, std::min(src, dst + dst * k), i32);
      indices.narrow(0, 0, fresh.size(0)).copy_(fresh);
      indices = indices.index_select(0, at::rand({dst * k}, kF).argsort()).contiguous();
      block.indices = indices.const_data_ptr<std::int32_t>();
      auto sorted = at::sort(indices, true, 0, false);
      tind = std::get<1>(sorted).div(k, "floor").to(at::kInt).contiguous();
      at::Tensor c = at::zeros({src + 1}, kF.dtype(at::kLong));
      c.index_add_(0, std::get<0>(sorted).to(at::kLong).add(1), at::full({dst * k}, 1, kF.dtype(at::kLong)));
      tptr = c.cumsum(0).contiguous();
      block.transposed_indptr = tptr.const_data_ptr<Count>();
      block.transposed_indices = tind.const_data_ptr<std::int32_t>();
    }
  }
};

TEST(GatProbe, Products) {
  if (c10::cuda::device_count() == 0) GTEST_SKIP();
  at::globalContext().setAllowTF32CuBLAS(true);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);
  const Count n0 = 152000, n1 = 16400, n2 = 1024;
  const at::Tensor table = at::randn({2400000, 100}, kF);
  Random b0(n0, n0, 5, true), b1(n1, n0, 10, false), b2(n2, n1, 15, false);
  auto stream = c10::cuda::getCurrentCUDAStream(0).stream();
  for (bool bf16 : {false, true}) {
    auto model = make_model({.kind = "gat", .in_cols = 100, .hidden = 256, .out_cols = 47, .num_layers = 3, .heads = 4, .dropout = 0.5, .bf16 = bf16, .seed = 1});
    model->to(kGpu);
    const sampling::MiniBatch batch{.blocks = {b0.block, b1.block, b2.block}, .num_seeds = n2};
    const RowTable rows{.rows = table.const_data_ptr<float>(), .cols = 100, .pitch = 100};
    const Pass pass{.key = {.seed = 1}, .training = true};
    at::Tensor out;
    std::printf("stack bf16 %d: forward %.3f ms", bf16, ms([&] { out = model->forward_table(rows, batch, pass); }));
    const at::Tensor g = at::randn({n2, 47}, kF);
    std::printf(", forward and backward %.3f ms\n", ms([&] { model->forward_table(rows, batch, pass).backward(g); }));
  }
  const auto layer = [&]<typename In, typename T>(const char* name, const Random& r, const In* in, Count cols, bool input_grad, at::ScalarType type) {
    const auto opt = kF.dtype(type);
    const Count h = 4, n = r.block.num_dst, places = n * (r.block.stride + 1);
    at::Tensor q = at::randn({2, h, cols}, kF).mul(0.1), raw = at::empty({places, h}, kF), ls = at::empty({n, h}, kF);
    at::Tensor sums = at::empty({n, h * cols + kGatTail<T>}, opt), g = at::randn({n, h * cols}, opt);
    at::Tensor pieces = at::empty({gat_pieces(n), 2, h, cols}, kF), gi = at::empty({r.block.num_src, cols}, opt), eg = at::empty({places, cols}, opt);
    GatInput<In> over{.num_dst = n, .heads = h, .cols = cols, .in = in, .in_pitch = cols,
                      .edges = {.counts = r.block.counts, .stride = r.block.stride, .indices = r.block.indices},
                      .own_ids = r.block.global_indices ? r.block.src_nodes : nullptr, .queries = q.const_data_ptr<float>(), .dropout = {}};
    std::printf("%s: sums %.3f", name, ms([&] { gat_forward(GatForward<In, T>{over, raw.mutable_data_ptr<float>(), ls.mutable_data_ptr<float>(), static_cast<T*>(sums.data_ptr())}, stream); }));
    GatBackward<In, T> b{.over = over, .raw_scores = raw.const_data_ptr<float>(), .log_sums = ls.const_data_ptr<float>(), .out = static_cast<const T*>(sums.const_data_ptr()),
                         .grad_out = static_cast<const T*>(g.const_data_ptr()), .num_pieces = gat_pieces(n), .grad_queries = pieces.mutable_data_ptr<float>()};
    if (input_grad) {
      b.grad_in = static_cast<T*>(gi.data_ptr());
      b.edge_grads = static_cast<T*>(eg.data_ptr());
      b.transposed_indptr = r.block.transposed_indptr;
    }
    std::printf(" backward %.3f", ms([&] { gat_backward(b, stream); }));
    if (input_grad)
      std::printf(" input grad %.3f", ms([&] { gat_input_grad(GatInputGrad<T>{r.block.num_src, n, cols, r.block.transposed_indptr, r.block.transposed_indices, over.edges, b.edge_grads, b.grad_in}, stream); }));
    const Count m = 256;
    at::Tensor w = at::randn({h, 64, cols}, opt), out = at::empty({n, m}, opt), gs = at::empty({n, h * cols}, opt);
    auto heads = [&](const at::Tensor& t, Count c) { return t.narrow(1, 0, h * c).view({n, h, c}).transpose(0, 1); };
    at::Tensor oh = heads(out, 64), gh = heads(gs, cols);
    std::printf(" map %.3f", ms([&] { at::bmm_out(oh, heads(sums, cols), w.transpose(1, 2)); }));
    std::printf(" map grad %.3f", ms([&] { at::bmm_out(gh, heads(out, 64), w); }));
    at::Tensor wb = at::randn({m, sums.size(1)}, opt);
    std::printf(" (whole: map %.3f", ms([&] { sums.mm(wb.t()); }));
    std::printf(" map grad %.3f)", ms([&] { out.mm(wb.narrow(1, 0, h * cols)); }));
    std::printf(" weight grad %.3f", ms([&] { out.t().mm(sums); }));
    std::printf(" (by head %.3f", ms([&] { for (int i = 0; i < h; ++i) out.narrow(1, 64 * i, 64).t().mm(sums.narrow(1, i * cols, cols)); }));
    std::printf(" batched %.3f)", ms([&] { at::bmm(heads(out, 64).transpose(1, 2), heads(sums, cols)); }));
    const DropoutRule rule = make_dropout(0.5, {.key = {.seed = 1}, .training = true}, 1, r.block);
    at::Tensor bias = at::zeros({m}, kF);
    std::printf(" activate %.3f ms\n", ms([&] { activate_hidden(out, bias, rule); }));
  };
  layer.operator()<float, float>("layer 0 f32", b0, table.const_data_ptr<float>(), 100, false, at::kFloat);
  layer.operator()<float, Bf16>("layer 0 bf16", b0, table.const_data_ptr<float>(), 100, false, at::kBFloat16);
  const at::Tensor h = at::randn({n0, 256}, kF).relu(), hb = h.to(at::kBFloat16);
  layer.operator()<float, float>("layer 1 f32", b1, h.const_data_ptr<float>(), 256, true, at::kFloat);
  layer.operator()<Bf16, Bf16>("layer 1 bf16", b1, static_cast<const Bf16*>(hb.const_data_ptr()), 256, true, at::kBFloat16);
  layer.operator()<float, float>("layer 2 f32", b2, h.const_data_ptr<float>(), 256, true, at::kFloat);
  at::globalContext().setAllowTF32CuBLAS(false);
}

}  // namespace
}  // namespace strata::nn
