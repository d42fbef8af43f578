// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interruptible.hpp"
#include "runtime.hpp"
#include "strata/batches/graph.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::python {
namespace {

using namespace nb::literals;
using batches::UnifiedTensor;
using Rows = nb::ndarray<nb::c_contig>;

std::size_t row_bytes(const Rows& rows) {
  std::size_t bytes = rows.itemsize();
  for (std::size_t i = 1; i < rows.ndim(); ++i) bytes *= rows.shape(i);
  return bytes;
}

/// Makes a tensor; elements of 16 bytes are two of 8.
std::shared_ptr<UnifiedTensor> make_unified(const Process& process, const Rows& rows,
                                            const std::string& host_gather, int host_threads) {
  const tensor::GatherSettings settings{.host_path = enum_value<tensor::HostPath>(host_gather, "host_gather"),
                                        .threads = host_threads};
  const batches::HostRows host{.data = rows.data(),
                               .rows = static_cast<Count>(rows.shape(0)),
                               .row_bytes = row_bytes(rows),
                               .element_bytes = std::min<std::size_t>(rows.itemsize(), 8),
                               .keep_alive = hold(nb::cast(rows))};
  const Device device = process.runtime->device();
  const nb::gil_scoped_release guard;
  return std::make_shared<UnifiedTensor>(device, host, settings);
}

UnifiedTensor::Ids ids_of(const AnyArray& ids) {
  const bool is_integer = ids.dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int);
  if (!is_integer || ids.ndim() != 1 || ids.itemsize() < 4)
    throw InputError("indices are one row of int64 or int32", "Give index.view(-1).long().");
  return {.data = ids.data(), .count = static_cast<Count>(ids.shape(0)), .wide = ids.itemsize() == 8};
}

cuda::Stream stream_of(const Process& process, std::uintptr_t handle) {
  return borrow_stream(process.runtime->device(), handle);
}

/// Whether this thread would wait for long: for a GPU without checks of ids, work is only enqueued, maybe
/// while a CUDA graph is recorded.
template <typename Array>
bool is_long(const Process& process, const Array& rows, bool check) {
  if (process.device().is_cuda() && !check) return false;
  return static_cast<std::int64_t>(rows.nbytes()) > long_gather_bytes(process.device());
}

/// Gathers; holds the arrays for as long as the work takes, which may be longer than the call.
void gather(const std::shared_ptr<UnifiedTensor>& tensor, const Process& process, const AnyArray& ids,
            const Rows& out, std::uintptr_t stream, bool check) {
  interruptible_if(is_long(process, out, check), process.device(),
                   [tensor, runtime = process.runtime, ids, given = ids_of(ids), out, stream, check] {
                     tensor->gather(given, out.data(), borrow_stream(runtime->device(), stream), check);
                   });
}

void scatter(const std::shared_ptr<UnifiedTensor>& tensor, const Process& process, const AnyArray& ids,
             const AnyArray& rows, std::uintptr_t stream, bool check) {
  interruptible_if(is_long(process, rows, check), process.device(),
                   [tensor, runtime = process.runtime, ids, given = ids_of(ids), rows, stream, check] {
                     tensor->scatter(given, rows.data(), borrow_stream(runtime->device(), stream), check);
                   });
}

void fence(const UnifiedTensor& tensor, const Process& process, std::uintptr_t stream) {
  const nb::gil_scoped_release guard;
  tensor.fence(stream_of(process, stream));
}

}  // namespace

void bind_unified(nb::module_& module) {
  nb::class_<UnifiedTensor>(module, "UnifiedTensor", "Host memory that the GPU reads in place.")
      .def_static("make", &make_unified, "process"_a, "rows"_a, "host_gather"_a, "host_threads"_a)
      .def("gather", &gather, "process"_a, "ids"_a, "out"_a, "stream"_a, "check"_a)
      .def("scatter", &scatter, "process"_a, "ids"_a, "rows"_a, "stream"_a, "check"_a)
      .def("fence", &fence, "process"_a, "stream"_a);
}

}  // namespace strata::python
