// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "bindings.hpp"

namespace strata::python {

/// Lets threads that Python did not make into the interpreter until it ends. A thread that asks for the GIL
/// while the interpreter ends would be ended in the middle of its work.
class Interpreter {
 public:
  /// While one lives and is true, its thread has the GIL. If it is false, nothing of Python may be touched.
  class Entry {
   public:
    Entry();
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    explicit operator bool() const { return gil_.has_value(); }

   private:
    std::optional<nb::gil_scoped_acquire> gil_;
  };

  /// Lets nobody in any more, and waits, without the GIL, for those that are inside. Called with the GIL.
  static void close();
};

}  // namespace strata::python
