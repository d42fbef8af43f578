// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include "bindings.hpp"

/// Converts at::Tensor and torch.Tensor, the same tensor with its history. The package torch is imported
/// before.
template <>
struct nanobind::detail::type_caster<at::Tensor> {
  NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) {
    if (!THPVariable_Check(source.ptr())) return false;
    value = THPVariable_Unpack(source.ptr());
    return true;
  }
  static handle from_cpp(const at::Tensor& tensor, rv_policy, cleanup_list*) {
    return THPVariable_Wrap(tensor);
  }
};
