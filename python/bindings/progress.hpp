// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "bindings.hpp"

namespace strata::python {

/// BarWatch: the bars of this extension's work as values, which Python draws.
void bind_progress(nb::module_& module);

}  // namespace strata::python
