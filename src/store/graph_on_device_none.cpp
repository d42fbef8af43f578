// SPDX-License-Identifier: Apache-2.0
#include "graph_on_device.hpp"

namespace strata::store {

struct GraphOnDevice::Copies {};

GraphOnDevice::GraphOnDevice() = default;
GraphOnDevice::GraphOnDevice(GraphOnDevice&&) noexcept = default;
GraphOnDevice& GraphOnDevice::operator=(GraphOnDevice&&) noexcept = default;
GraphOnDevice::~GraphOnDevice() = default;

GraphOnDevice::GraphOnDevice(const comm::Machine& machine, const GraphView& host, plan::GraphPlacement&)
    : view_(host) {
  view_.device = machine.device();
}

void GraphOnDevice::close(const comm::Machine&) {}

}  // namespace strata::store
