// SPDX-License-Identifier: Apache-2.0
// This is the extension strata._ranks: ranks of torchrun or torch.multiprocessing. It links libtorch, which
// the package torch has loaded by then.
#include <memory>

#include "backend_capsule.hpp"
#include "bindings.hpp"
#include "interruptible.hpp"
#include "strata/torch_ranks/torch_ranks.hpp"

namespace nb = nanobind;
using strata::comm::Backend;

namespace {

nb::capsule make_backend(bool ends_with_others) {
  return strata::python::capsule_of(strata::python::interruptible(strata::Device{}, [ends_with_others] {
    return strata::torch_ranks::backend({.ends_with_others = ends_with_others});
  }));
}

}  // namespace

NB_MODULE(_ranks, module) {
  nb::set_leak_warnings(false);
  strata::python::bind_errors(module);
  module.def("backend", &make_backend, nb::arg("ends_with_others") = true,
             "Joins the ranks that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT describe.");
  module.def("await_left", &strata::python::Interruptible::await_left, nb::arg("milliseconds"),
             "Whether no call is still at work that a signal ended the wait for.");
}
