// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "runtime.hpp"
#include "strata/batches/batch.hpp"

namespace strata::python {
namespace {

using namespace nb::literals;
using batches::BatchPadder;
using batches::PaddedArray;
using Target = nb::ndarray<nb::c_contig>;

/// An array of a fixed shape, which its owner keeps.
PaddedArray array_to(PaddedArray::Kind kind, const Target& to, int hop, std::int64_t fill) {
  Count row_bytes = static_cast<Count>(to.itemsize());
  for (std::size_t d = 1; d < to.ndim(); ++d) row_bytes *= static_cast<Count>(to.shape(d));
  return {.kind = kind, .hop = hop, .row_bytes = row_bytes, .fill = fill, .to = to.data()};
}

/// Addresses and rows of dense arrays, because DLPack takes longer for a batch's twenty than a GPU for them.
using Sources = std::vector<std::pair<std::uintptr_t, Count>>;

void pad(const BatchPadder& padder, const Process& process, std::vector<Count> nodes,
         std::vector<Count> edges, const Sources& sources, std::uintptr_t stream) {
  const batches::HopCounts counts{.nodes = std::move(nodes), .edges = std::move(edges)};
  std::vector<batches::PaddingSource> arrays;
  for (const auto& [address, rows] : sources)
    arrays.push_back({.data = reinterpret_cast<const void*>(address), .rows = rows});
  const cuda::Stream on = borrow_stream(process.runtime->device(), stream);
  const nb::gil_scoped_release guard;
  padder.pad(counts, arrays, on, process.runtime->caller_pool());
}

}  // namespace

void bind_padding(nb::module_& module) {
  nb::class_<PaddedArray> array(module, "PaddedArray",
                                "See batches/batch_padder.hpp. The tensor is its owner's.");
  using Kind = PaddedArray::Kind;
  nb::enum_<Kind>(array, "Kind")
      .value("nodes", Kind::nodes)
      .value("seeds", Kind::seeds)
      .value("seed_mask", Kind::seed_mask)
      .value("edges", Kind::edges)
      .value("all_edges", Kind::all_edges)
      .value("starts", Kind::starts)
      .value("sources", Kind::sources)
      .value("out_starts", Kind::out_starts)
      .value("out_ends", Kind::out_ends)
      .value("all_sources", Kind::all_sources)
      .value("all_ends", Kind::all_ends);
  array.def_static("make", &array_to, "kind"_a, "to"_a.noconvert(), "hop"_a = 0, "fill"_a = 0);
  nb::class_<BatchPadder>(module, "BatchPadder", "See batches/batch_padder.hpp.")
      .def_static(
          "make",
          [](const Process& process, std::vector<Count> nodes, std::vector<Count> edges,
             std::vector<Count> spare, std::vector<PaddedArray> arrays) {
            return new BatchPadder(
                {.nodes = std::move(nodes), .edges = std::move(edges), .spare = std::move(spare)},
                std::move(arrays), process.runtime->device());
          },
          "process"_a, nb::kw_only(), "nodes"_a, "edges"_a, "spare"_a, "arrays"_a)
      .def("pad", &pad, "process"_a, "nodes"_a, "edges"_a, "sources"_a, "stream"_a);
}

}  // namespace strata::python
