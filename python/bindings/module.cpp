// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "progress.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/system.hpp"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  // Objects that torch still holds when the interpreter ends are no leak.
  nb::set_leak_warnings(false);
  module.doc() = "Graphs, samplers and batches of Strata. Use the package strata, which imports this module.";
  module.attr("__version__") = strata::build_version();
  module.attr("with_cuda") = STRATA_WITH_CUDA == 1;
  module.attr("torch_version") = STRATA_TORCH_VERSION;
  module.attr("torch_cuda") = STRATA_TORCH_CUDA;  // empty: torch was without
  module.def("device_count", &strata::cuda::device_count, "GPUs that this process sees; 0 without a driver.");
  strata::python::bind_errors(module);
  strata::python::bind_runtime(module);
  strata::python::bind_graph(module);
  strata::python::bind_embedding(module);
  strata::python::bind_sm_split(module);
  strata::python::bind_links(module);
  strata::python::bind_loader(module);
  strata::python::bind_nn(module);
  strata::python::bind_padding(module);
  strata::python::bind_partition(module);
  strata::python::bind_progress(module);
  strata::python::bind_unified(module);
}
