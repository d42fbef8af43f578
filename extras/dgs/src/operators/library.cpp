// SPDX-License-Identifier: Apache-2.0
// This file registers the names that scripts of Dist-GPU-sampling use.
#include <torch/custom_class.h>
#include <torch/library.h>

#include <optional>

#include "operators/arguments.hpp"
#include "operators/blocks.hpp"
#include "operators/hot_rows.hpp"
#include "operators/relabel.hpp"
#include "operators/sampling.hpp"
#include "operators/session.hpp"
#include "operators/torch_chunk_tensor.hpp"

namespace {

using namespace strata::dgs;
using Self = c10::intrusive_ptr<TorchChunkTensor>;
using Ids = std::vector<std::int64_t>;

Self make_chunk_tensor(Ids shape, at::ScalarType dtype, std::int64_t capacity_per_gpu) {
  return translated([&] { return c10::make_intrusive<TorchChunkTensor>(shape, dtype, capacity_per_gpu); });
}

at::Tensor index_rows(const Self& self, const at::Tensor& ids) {
  return translated([&] { return self->index(ids); });
}

Edges sample_tensors(const at::Tensor& seeds, const at::Tensor& indptr, const at::Tensor& indices,
                     std::int64_t num_picks, bool replace) {
  return translated([&] { return sample({seeds, num_picks, replace}, indptr, indices, at::Tensor()); });
}

Edges sample_weighted_tensors(const at::Tensor& seeds, const at::Tensor& indptr, const at::Tensor& indices,
                              const at::Tensor& probs, std::int64_t num_picks, bool replace) {
  return translated([&] { return sample({seeds, num_picks, replace}, indptr, indices, probs); });
}

Edges sample_chunk_tensors(const at::Tensor& seeds, const Self& indptr, const Self& indices,
                           std::int64_t num_picks, bool replace) {
  return translated([&] { return sample({seeds, num_picks, replace}, ChunkedGraph{*indptr, *indices}); });
}

Edges sample_weighted_chunk_tensors(const at::Tensor& seeds, const Self& indptr, const Self& indices,
                                    const Self& probs, std::int64_t num_picks, bool replace) {
  return translated([&] {
    return sample({seeds, num_picks, replace}, ChunkedGraph{*indptr, *indices, probs.get()});
  });
}

Blocks make_blocks(const at::Tensor& seeds, const Self& indptr, const Self& indices,
                   const std::optional<Self>& probs, const Ids& fanouts, bool inputs_by_id,
                   bool input_gradients) {
  return translated([&] {
    return sample_blocks({.seeds = seeds,
                          .fanouts = fanouts,
                          .inputs_by_id = inputs_by_id,
                          .input_gradients = input_gradients},
                         {*indptr, *indices, probs ? probs->get() : nullptr});
  });
}

Relabeled relabel_tensors(const std::vector<at::Tensor>& mapping, const std::vector<at::Tensor>& to_relabel) {
  return translated([&] { return relabel(mapping, to_relabel); });
}

HashMap make_hash_map(const at::Tensor& keys, const at::Tensor& values) {
  return translated([&] { return create_hash_map(keys, values); });
}

at::Tensor fetch_rows(const at::Tensor& cpu, const at::Tensor& gpu, const at::Tensor& nid,
                      const at::Tensor& keys, const at::Tensor& values) {
  return translated([&] { return fetch({cpu, nid, {keys, values}}, gpu); });
}

at::Tensor fetch_chunk_rows(const at::Tensor& cpu, const Self& gpu, const at::Tensor& nid,
                            const at::Tensor& keys, const at::Tensor& values) {
  return translated([&] { return fetch({cpu, nid, {keys, values}}, *gpu); });
}

std::int64_t allocated_bytes() {
  const auto group = group_if_any();
  return group ? group->allocated_bytes() : 0;
}

}  // namespace

TORCH_LIBRARY(dgs_classes, m) {
  m.class_<TorchChunkTensor>("ChunkTensor")
      .def(torch::init(&make_chunk_tensor), "",
           {torch::arg("shape"), torch::arg("dtype"), torch::arg("capacity_per_gpu")})
      .def("_CAPI_load_from_tensor",
           [](const Self& self, const at::Tensor& data) { translate_errors([&] { self->load(data); }); }, "",
           {torch::arg("data")})
      .def("_CAPI_get_host_tensor",
           [](const Self& self) { return translated([&] { return self->host_view(); }); })
      .def("_CAPI_get_sub_device_tensor",
           [](const Self& self) { return translated([&] { return self->gpu_view(); }); })
      .def("_CAPI_index", &index_rows, "", {torch::arg("ids")})
      // These differ in what the caller knows; every id is read where it lies.
      .def("_CAPI_local_index", &index_rows, "", {torch::arg("ids")})
      .def("_CAPI_remote_index", &index_rows, "", {torch::arg("ids")})
      .def("_CAPI_host_index", &index_rows, "", {torch::arg("ids")})
      .def("_CAPI_split_index",
           [](const Self& self, const at::Tensor& ids) {
             return translated([&] { return self->split(ids); });
           },
           "", {torch::arg("ids")})
      .def("size", [](const Self& self) { return translated([&] { return self->size(); }); })
      .def("index_into",
           [](const Self& self, const at::Tensor& ids, const at::Tensor& out) {
             translate_errors([&] { self->index_into(ids, out); });
           },
           "", {torch::arg("ids"), torch::arg("out")})
      .def("close", [](const Self& self) { translate_errors([&] { self->close(); }); });
}

// Schemas give the arguments their names.
#define STRATA_CHUNK_TENSOR "__torch__.torch.classes.dgs_classes.ChunkTensor"

TORCH_LIBRARY(dgs_ops, m) {
  m.def("_CAPI_get_unique_id() -> int[]", [] { return translated(&unique_id); });
  m.def("_CAPI_set_nccl(int nranks, int[] unique_id, int rank) -> ()",
        [](std::int64_t nranks, const Ids& unique_id, std::int64_t rank) {
          translate_errors([&] { join_group(nranks, unique_id, rank); });
        });
  m.def("_CAPI_close() -> ()", [] { translate_errors(&leave_group); });
  m.def("_CAPI_get_current_allocated() -> int", &allocated_bytes);
  m.def(
      "_CAPI_sample_neighbors(Tensor seeds, Tensor indptr, Tensor indices, int num_picks, bool replace) -> "
      "(Tensor, Tensor)",
      &sample_tensors);
  m.def("_CAPI_sample_neighbors_with_chunk_tensor(Tensor seeds, " STRATA_CHUNK_TENSOR
        " indptr, " STRATA_CHUNK_TENSOR " indices, int num_picks, bool replace) -> (Tensor, Tensor)",
        &sample_chunk_tensors);
  m.def(
      "_CAPI_sample_neighbors_with_probs(Tensor seeds, Tensor indptr, Tensor indices, Tensor probs, int "
      "num_picks, bool replace) -> (Tensor, Tensor)",
      &sample_weighted_tensors);
  m.def("_CAPI_sample_neighbors_with_probs_with_chunk_tensor(Tensor seeds, " STRATA_CHUNK_TENSOR
        " indptr, " STRATA_CHUNK_TENSOR " indices, " STRATA_CHUNK_TENSOR
        " probs, int num_picks, bool replace) -> (Tensor, Tensor)",
        &sample_weighted_chunk_tensors);
  m.def("_CAPI_tensor_relabel(Tensor[] mapping, Tensor[] to_relabel) -> (Tensor, Tensor[])",
        &relabel_tensors);
  m.def("sample_blocks", &make_blocks);
  m.def("_CAPI_create_hash_map(Tensor keys, Tensor values) -> (Tensor, Tensor)", &make_hash_map);
  m.def("_CAPI_fetch_data(Tensor cpu, Tensor gpu, Tensor nid, Tensor keys, Tensor values) -> Tensor",
        &fetch_rows);
  m.def("_CAPI_fetch_data_chunk_tensor(Tensor cpu, " STRATA_CHUNK_TENSOR
        " gpu, Tensor nid, Tensor keys, Tensor values) -> Tensor",
        &fetch_chunk_rows);
}
