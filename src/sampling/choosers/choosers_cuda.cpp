// SPDX-License-Identifier: Apache-2.0
#include "choosers/pick_chooser_cuda.hpp"

namespace strata::sampling {

template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_device_chooser(const store::GraphView& view,
                                                           const SamplerOptions& options) {
  if (const auto& make = options.device_chooser.of<Id>()) return make(view);
  if (view.sublists.first != nullptr) return make_sublist_device_chooser<Id>(view, options);
  switch (options.method) {
    case Method::labor:
      return make_labor_device_chooser<Id>(view, options.layer_dependent);
    case Method::weighted:
      return options.replace ? make_weighted_replacing_device_chooser<Id>(view)
                             : make_weighted_device_chooser<Id>(view);
    case Method::uniform:
      break;
  }
  return options.replace ? make_replacing_device_chooser<Id>(view) : make_uniform_device_chooser<Id>(view);
}
template std::unique_ptr<DevicePickChooser<std::int32_t>> make_device_chooser(const store::GraphView&,
                                                                              const SamplerOptions&);
template std::unique_ptr<DevicePickChooser<std::int64_t>> make_device_chooser(const store::GraphView&,
                                                                              const SamplerOptions&);

}  // namespace strata::sampling
