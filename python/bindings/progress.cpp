// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include "strata/util/log.hpp"

namespace strata::python {

void bind_progress(nb::module_& module) {
  nb::class_<BarWatch>(module, "BarWatch", "While one lives, bars are values instead of text on stderr.")
      .def(nb::init<>())
      .def("bars", [](const BarWatch& watch) {
        nb::list list;
        for (const BarState& bar : watch.bars())
          list.append(nb::make_tuple(bar.number, bar.title.c_str(), bar.unit.c_str(), bar.done, bar.total,
                                     bar.words.c_str()));
        return list;
      });
}

}  // namespace strata::python
