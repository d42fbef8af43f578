// SPDX-License-Identifier: Apache-2.0
// The extension strata._ranks: ranks that torchrun or torch.multiprocessing started. It links libtorch, which
// the package torch has loaded by then.
#include <memory>

#include "backend_capsule.hpp"
#include "bindings.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"

namespace nb = nanobind;
using strata::comm::Backend;

namespace {

nb::capsule make_backend(bool ends_with_others) {
  std::shared_ptr<Backend> backend;
  {
    const nb::gil_scoped_release guard;
    backend = strata::torch_ranks::backend({.ends_with_others = ends_with_others});
  }
  return strata::python::capsule_of(std::move(backend));
}

}  // namespace

NB_MODULE(_ranks, module) {
  nb::set_leak_warnings(false);
  strata::python::bind_errors(module);
  module.def("backend", &make_backend, nb::arg("ends_with_others") = true,
             "Joins the ranks that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT tell of.");
}
