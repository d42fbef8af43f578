// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "bindings.hpp"
#include "strata/comm/backend.hpp"

/// Passes ranks from one extension to another.
namespace strata::python {

inline nb::capsule capsule_of(std::shared_ptr<comm::Backend> backend) {
  return {new std::shared_ptr<comm::Backend>(std::move(backend)), comm::kBackendCapsule,
          [](void* held) noexcept { delete static_cast<std::shared_ptr<comm::Backend>*>(held); }};
}

inline std::shared_ptr<comm::Backend> backend_in(const nb::object& capsule) {
  void* const held = PyCapsule_GetPointer(capsule.ptr(), comm::kBackendCapsule);
  if (held == nullptr) throw nb::python_error();
  return *static_cast<std::shared_ptr<comm::Backend>*>(held);
}

}  // namespace strata::python
