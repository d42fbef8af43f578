// SPDX-License-Identifier: Apache-2.0
#include "host_backend.hpp"
#include "tensor_backend.hpp"

namespace strata::tensor {

std::unique_ptr<TensorBackend> make_backend(Device device, const TensorSpec& spec,
                                            const comm::Resources& /*resources*/) {
  return std::make_unique<HostBackend>(device, spec);
}

}  // namespace strata::tensor
