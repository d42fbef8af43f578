// SPDX-License-Identifier: Apache-2.0
#include "python_value.hpp"

#include <nanobind/stl/unique_ptr.h>

#include "torch_tensor.hpp"

namespace strata::python {
namespace {

Pickle dumped(const nb::object& object) {
  static PackageFunction dump("strata.rpc._pickles", "dump");
  const nb::tuple parts = nb::cast<nb::tuple>((*dump)(object));
  return pickle_of(nb::cast<nb::bytes>(parts[0]), nb::cast<nb::list>(parts[1]), nb::cast<nb::list>(parts[2]));
}

/// Drops the object with the GIL; after the end of the interpreter, which has freed it, not at all.
void drop_object(PyObject* object) {
  const Interpreter::Entry entry;
  if (entry) Py_DECREF(object);
}

}  // namespace

PythonValue::PythonValue(nb::object object) : object_(object.release().ptr(), &drop_object) {}

nb::object PythonValue::object() const { return object_ ? nb::borrow(object_.get()) : unpickled(*pickle_); }

Pickle PythonValue::pickled() const {
  if (pickle_) return *pickle_;
  return in_python([this] { return dumped(nb::borrow(object_.get())); });
}

Pickle pickle_of(const nb::bytes& bytes, const nb::list& tensors, const nb::list& handles) {
  Pickle pickle{.bytes = {bytes.c_str(), bytes.size()}, .tensors = {}, .handles = {}};
  for (const nb::handle tensor : tensors) pickle.tensors.push_back(nb::cast<at::Tensor>(tensor));
  for (const nb::handle handle : handles) pickle.handles.push_back(nb::cast<Handle&>(handle).ref());
  return pickle;
}

nb::object unpickled(const Pickle& pickle) {
  static PackageFunction load("strata.rpc._pickles", "load");
  nb::list tensors, handles;
  for (const at::Tensor& tensor : pickle.tensors) tensors.append(tensor);
  for (const rpc::Ref<PythonValue>& ref : pickle.handles) handles.append(std::make_unique<Handle>(ref));
  const nb::bytes bytes(pickle.bytes.data(), pickle.bytes.size());
  return (*load)(bytes, tensors, handles);
}

rpc::RemoteError remote_error_of(const nb::python_error& error) {
  static PackageFunction parts_of("strata.rpc._failures", "parts_of");
  const nb::tuple parts = nb::cast<nb::tuple>((*parts_of)(error.value()));
  const auto text = [&](int place) { return std::string(nb::cast<nb::str>(parts[place]).c_str()); };
  return rpc::RemoteError({.type = text(0),
                           .text = text(1),
                           .remedy = text(2),
                           .rank = nb::cast<int>(parts[3]),
                           .host = text(4),
                           .agent = text(5),
                           .device = text(6)});
}

nb::python_error raised_again(::python_error& caught) {
  caught.restore();
  return nb::python_error();
}

const rpc::Ref<PythonValue>& Handle::ref() const {
  if (!ref_)
    throw InputError("a reference was used after rpc.shutdown()", "Make another after rpc.init_rpc().");
  return ref_;
}

void Handle::drop() {
  rpc::Ref<PythonValue> last = std::exchange(ref_, {});
  const nb::gil_scoped_release guard;
  last = {};
}

}  // namespace strata::python
