// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nanobind/nanobind.h>

/// The parts of strata._core. Bindings hold no logic: each calls a C++ function that has tests of its own.
namespace strata::python {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_runtime(nb::module_& module);
void bind_embedding(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_links(nb::module_& module);
void bind_loader(nb::module_& module);
void bind_nn(nb::module_& module);
void bind_padding(nb::module_& module);
void bind_partition(nb::module_& module);
void bind_sm_split(nb::module_& module);
void bind_unified(nb::module_& module);

}  // namespace strata::python
