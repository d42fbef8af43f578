// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "strata/util/error.hpp"

namespace strata::python {
namespace {

const char* name_of(const Error& error) {
  if (dynamic_cast<const InputError*>(&error) != nullptr) return "InputError";
  if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) return "OutOfMemory";
  if (dynamic_cast<const IoError*>(&error) != nullptr) return "IoError";
  if (dynamic_cast<const CudaError*>(&error) != nullptr) return "CudaError";
  if (dynamic_cast<const CommError*>(&error) != nullptr) return "CommError";
  return "StrataError";
}

/// Raises the class of strata.errors that has the exception's name.
void raise(const Error& error) {
  try {
    const nb::object type = nb::module_::import_("strata.errors").attr(name_of(error));
    const nb::object value = type(error.what(), error.remedy(), error.is_echo());
    PyErr_SetObject(type.ptr(), value.ptr());
  } catch (nb::python_error& failed) {
    failed.restore();
  }
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& exception, void*) {
    try {
      std::rethrow_exception(exception);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace strata::python
