// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/cuda/stream.hpp"
#include "strata/graph/npy.hpp"
#include "strata/util/types.hpp"

/// Arrays between Python and C++, by DLPack and without a copy.
namespace strata::python {

namespace nb = nanobind;

/// An array of `owner`'s memory; the owner lives as long as the array.
template <typename T>
nb::ndarray<nb::array_api, T> array_of(const T* data, std::initializer_list<Count> shape, Device device,
                                       nb::handle owner) {
  std::size_t extents[4] = {};
  std::size_t dimensions = 0;
  for (const Count extent : shape) extents[dimensions++] = at(extent);
  const int type = device.is_cuda() ? nb::device::cuda::value : nb::device::cpu::value;
  return nb::ndarray<nb::array_api, T>(const_cast<T*>(data), dimensions, extents, owner, nullptr,
                                       nb::dtype<T>(), type, device.index);
}

/// The array, or None without data.
template <typename T>
nb::object optional_array(const T* data, std::initializer_list<Count> shape, Device device,
                          nb::handle owner) {
  if (data == nullptr) return nb::none();
  return array_of(data, shape, device, owner).cast(nb::rv_policy::reference);
}

/// An array that owns these values.
template <typename T>
nb::object array_with(std::vector<T> values, std::initializer_list<Count> shape) {
  auto* const held = new std::vector<T>(std::move(values));
  const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return array_of(held->data(), shape, {}, owner).cast(nb::rv_policy::reference);
}
template <typename T>
nb::object array_with(std::vector<T> values) {
  const Count size = std::ssize(values);
  return array_with(std::move(values), {size});
}

using AnyArray = nb::ndarray<nb::ro, nb::c_contig>;
using HostArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using IdArray = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig>;
using HostIdArray = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Holds a Python object from C++; the last holder may be on any thread.
std::shared_ptr<const void> hold(nb::object object);

/// The array in the form of the readers of files; it holds the Python object. Throws InputError for types
/// that NumPy does not know.
graph::NpyArray npy_of(const HostArray& array, const std::string& name);

/// The consumer's stream, for example torch's current one. The handle is that of a cudaStream_t.
cuda::Stream borrow_stream(Device device, std::uintptr_t handle);

}  // namespace strata::python
