// SPDX-License-Identifier: Apache-2.0
#include "arrays.hpp"

#include <fmt/format.h>

#include "strata/util/error.hpp"

namespace strata::python {
namespace {

char kind_of(nb::dlpack::dtype type, const std::string& name) {
  switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
    case nb::dlpack::dtype_code::Int:
      return 'i';
    case nb::dlpack::dtype_code::UInt:
      return 'u';
    case nb::dlpack::dtype_code::Float:
      return 'f';
    case nb::dlpack::dtype_code::Bool:
      return 'b';
    default:
      throw InputError(fmt::format("{} has a type that is neither a number nor bool", name),
                       "Convert it: float32, float16, int64 and bool are taken as they are.");
  }
}

}  // namespace

std::shared_ptr<const void> hold(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* held) {
            const nb::gil_scoped_acquire guard;
            delete held;
          }};
}

graph::NpyArray npy_of(const HostArray& array, const std::string& name) {
  graph::NpyArray result;
  result.origin = name;
  result.kind = kind_of(array.dtype(), name);
  result.item_bytes = array.dtype().bits / 8;
  for (std::size_t i = 0; i < array.ndim(); ++i) result.shape.push_back(static_cast<Count>(array.shape(i)));
  result.data = static_cast<const std::byte*>(array.data());
  result.keep_alive = hold(nb::cast(array));
  return result;
}

cuda::Stream borrow_stream(Device device, std::uintptr_t handle) {
  if (!device.is_cuda()) return {};
  return cuda::Stream::borrow(device, reinterpret_cast<CUstream_st*>(handle));
}

}  // namespace strata::python
