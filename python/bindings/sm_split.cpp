// SPDX-License-Identifier: Apache-2.0
#include "sm_split.hpp"

#include "bindings.hpp"
#include "runtime.hpp"
#include "strata/cuda/device.hpp"

namespace strata::python {
namespace {

using namespace nb::literals;

std::uintptr_t handle(const cuda::Stream& stream) { return reinterpret_cast<std::uintptr_t>(stream.get()); }

int count(const LoadingSplit& split, const cuda::SmGroup& group) {
  return group.is_all() ? cuda::num_multiprocessors(split.training.device().index) : group.num_sms();
}

}  // namespace

void bind_sm_split(nb::module_& module) {
  nb::class_<LoadingSplit>(module, "SmSplit", "Shares of a GPU's SMs; see cuda/sm_group.hpp.")
      .def_static(
          "make",
          [](const Process& process, int loading, int training) {
            return new LoadingSplit(process.runtime->device(), {.first = loading, .second = training});
          },
          "process"_a, nb::kw_only(), "loading"_a, "training"_a)
      .def_prop_ro("loading_sms", [](const LoadingSplit& s) { return count(s, s.sms.first); })
      .def_prop_ro("training_sms", [](const LoadingSplit& s) { return count(s, s.sms.second); })
      .def_prop_ro("loading_stream", [](const LoadingSplit& s) { return handle(s.loading); })
      .def_prop_ro("training_stream", [](const LoadingSplit& s) { return handle(s.training); });
}

}  // namespace strata::python
