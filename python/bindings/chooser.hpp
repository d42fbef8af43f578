// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nanobind/nanobind.h>

#include <memory>

#include "strata/sampling/neighbor_chooser.hpp"

namespace strata::python {

namespace nb = nanobind;

/// Calls `chooser._choose(nodes, fanout, hop, seed, epoch, step)` of a Python object, which returns the
/// arrays (counts, neighbors, edge ids or None).
std::shared_ptr<sampling::NeighborChooser> chooser_of(nb::object chooser);

}  // namespace strata::python
