// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/csrc/Exceptions.h>

#include <memory>
#include <string>
#include <vector>

#include "interpreter.hpp"
#include "strata/rpc/agent.hpp"
#include "strata/util/error.hpp"

namespace strata::python {

class PythonValue;

/// What strata.rpc makes of Python objects that travel.
struct Pickle {
  std::string bytes;
  std::vector<at::Tensor> tensors;
  std::vector<rpc::Ref<PythonValue>> handles;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(bytes, tensors, handles);
  }
};

/// A Python object, or what it was pickled to. May be copied and dropped without the GIL.
class PythonValue {
 public:
  explicit PythonValue(nb::object object);  ///< with the GIL
  explicit PythonValue(Pickle pickle) : pickle_(std::make_shared<Pickle>(std::move(pickle))) {}

  nb::object object() const;  ///< with the GIL
  /// Travels as its Pickle. Takes the GIL; throws rpc::RemoteError for what Python raises.
  template <typename Archive>
  void save(Archive& archive) const {
    archive(pickled());
  }

 private:
  Pickle pickled() const;

  std::shared_ptr<PyObject> object_;
  std::shared_ptr<Pickle> pickle_;
};

/// What Python has raised, for its way to another rank. With the GIL.
rpc::RemoteError remote_error_of(const nb::python_error& error);

/// What libtorch has caught in a backward pass, as nanobind's exception, which Python raises as what it was.
/// With the GIL.
nb::python_error raised_again(::python_error& caught);

/// Runs `function` with the GIL, on any thread. Throws rpc::RemoteError for what Python raises, and CommError
/// after the end of the interpreter. What it returns may be dropped without the GIL.
template <typename Function>
auto in_python(const Function& function) {
  const Interpreter::Entry entry;
  if (!entry) throw CommError("the Python interpreter of this rank has ended");
  try {
    return function();
  } catch (const nb::python_error& error) {
    throw remote_error_of(error);
  }
}

/// A function of the package, looked up once. Used with the GIL; static, because it is never freed.
class PackageFunction {
 public:
  constexpr PackageFunction(const char* module, const char* name) : module_(module), name_(name) {}
  nb::handle operator*() {
    if (function_ == nullptr)
      function_ = nb::object(nb::module_::import_(module_).attr(name_)).release().ptr();
    return function_;
  }

 private:
  const char* const module_;
  const char* const name_;
  PyObject* function_ = nullptr;
};

/// What pickles of strata.rpc consist of. With the GIL.
Pickle pickle_of(const nb::bytes& bytes, const nb::list& tensors, const nb::list& handles);
nb::object unpickled(const Pickle& pickle);

/// A handle as a Python object, which takes no lock while it has the GIL.
class Handle {
 public:
  explicit Handle(rpc::Ref<PythonValue> ref) : ref_(std::move(ref)) {}
  ~Handle() { drop(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  const rpc::Ref<PythonValue>& ref() const;  ///< throws InputError after drop()
  void drop();

 private:
  rpc::Ref<PythonValue> ref_;
};

}  // namespace strata::python
