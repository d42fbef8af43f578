// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/sampling/neighbor_chooser.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::sampling {

/// Makes the chooser that the options name. REQUIRES: the options are valid for the view.
template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_device_chooser(const store::GraphView& view,
                                                           const SamplerOptions& options);

/// The counterparts of make_uniform_chooser() and the functions after it.
template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_uniform_device_chooser(const store::GraphView& view);
template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_replacing_device_chooser(const store::GraphView& view);
template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_weighted_device_chooser(const store::GraphView& view);
template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_weighted_replacing_device_chooser(const store::GraphView& view);
template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_sublist_device_chooser(const store::GraphView& view,
                                                                   const SamplerOptions& options);
template <typename Id>
std::unique_ptr<DevicePickChooser<Id>> make_labor_device_chooser(const store::GraphView& view,
                                                                 bool layer_dependent);

}  // namespace strata::sampling
