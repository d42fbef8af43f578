// SPDX-License-Identifier: Apache-2.0
#include "strata/batches/embedding.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interruptible.hpp"
#include "runtime.hpp"
#include "strata/batches/graph.hpp"
#include "strata/util/text.hpp"

namespace strata::python {
namespace {

using namespace nb::literals;
using batches::Embedding;
using batches::EmbeddingOptions;
using Values = nb::ndarray<float, nb::ndim<2>, nb::c_contig>;
using GivenValues = nb::ndarray<const float, nb::ndim<2>, nb::c_contig>;
using Held = std::shared_ptr<Embedding>;

Held make(const Process& process, Count rows, Count columns, const std::string& optimizer,
          const std::string& placement, const std::shared_ptr<batches::Graph>& graph) {
  EmbeddingOptions options{.rows = rows,
                           .cols = columns,
                           .optimizer = enum_value<batches::RowOptimizer>(optimizer, "optimizer"),
                           .placement = enum_value<batches::RowPlacement>(placement, "placement")};
  if (graph != nullptr) {
    const auto offsets = graph->stored().machine_offsets();
    options.machine_offsets.assign(offsets.begin(), offsets.end());
  }
  return interruptible(process.device(), [runtime = process.runtime, options] {
    return std::make_shared<Embedding>(runtime, options);
  });
}

/// Whether a call on so many bytes waits for other ranks, or long.
bool is_long(const Process& process, bool waits, std::size_t bytes) {
  return waits || static_cast<std::int64_t>(bytes) > long_gather_bytes(process.device());
}

void gather(const Held& embedding, const Process& process, int part, const IdArray& ids, const Values& out,
            std::uintptr_t stream) {
  const Device device = process.device();
  const bool waits = process.runtime->topology().num_machines() > 1;
  interruptible_if(is_long(process, waits, out.nbytes()), device, [=] {
    embedding->gather(part, ids.data(), static_cast<Count>(ids.size()), out.data(),
                      borrow_stream(device, stream));
  });
}

void write(const Held& embedding, const Process& process, int part, const IdArray& ids,
           const GivenValues& rows, std::uintptr_t stream) {
  const Device device = process.device();
  interruptible_if(is_long(process, process.world->size() > 1, rows.nbytes()), device, [=] {
    embedding->write(part, ids.data(), static_cast<Count>(ids.size()), rows.data(),
                     borrow_stream(device, stream));
  });
}

void update(const Held& embedding, const Process& process, const IdArray& ids, const GivenValues& gradients,
            double rate, std::pair<double, double> betas, double epsilon, double scale,
            std::uintptr_t stream) {
  const Device device = process.device();
  const batches::RowUpdate scalars{
      .rate = rate, .beta1 = betas.first, .beta2 = betas.second, .epsilon = epsilon, .scale = scale};
  interruptible_if(is_long(process, process.world->size() > 1, gradients.nbytes()), device, [=] {
    embedding->update(ids.data(), static_cast<Count>(ids.size()), gradients.data(), scalars,
                      borrow_stream(device, stream));
  });
}

std::vector<std::pair<std::string, Count>> parts_of(const Embedding& embedding) {
  std::vector<std::pair<std::string, Count>> parts;
  for (const Embedding::Part& part : embedding.parts()) parts.emplace_back(part.name, part.cols);
  return parts;
}

}  // namespace

void bind_embedding(nb::module_& module) {
  nb::class_<Embedding>(module, "Embedding", "Rows that are learned, with the state of their optimizer.")
      .def_static("make", &make, "process"_a, "rows"_a, "columns"_a, "optimizer"_a, "placement"_a,
                  "graph"_a.none(), "Collective. With a graph, machines have the rows of their nodes.")
      .def_prop_ro("parts", &parts_of, "Name and columns of the weights and of each state.")
      .def_prop_ro("is_striped", &Embedding::is_striped)
      .def_prop_rw("updates", &Embedding::updates, &Embedding::set_updates)
      .def(
          "initialize",
          [](const Held& embedding, const Process& process, std::uint64_t seed, double bound) {
            interruptible(process.device(), [=] { embedding->initialize(seed, bound); });
          },
          "process"_a, "seed"_a, "bound"_a, "Collective.")
      .def("gather", &gather, "process"_a, "part"_a, "ids"_a, "out"_a.noconvert(), "stream"_a,
           "Collective on several machines.")
      .def("write", &write, "process"_a, "part"_a, "ids"_a, "rows"_a, "stream"_a, "Collective.")
      .def("update", &update, "process"_a, "ids"_a, "gradients"_a, "rate"_a, "betas"_a, "epsilon"_a,
           "scale"_a, "stream"_a, "Collective.")
      .def(
          "close",
          [](const Held& embedding, const Process& process) {
            interruptible(process.device(), [=] { embedding->close(); });
          },
          "process"_a, "Collective.");
}

}  // namespace strata::python
