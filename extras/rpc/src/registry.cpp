// SPDX-License-Identifier: Apache-2.0
#include "strata/rpc/registry.hpp"

#include <c10/util/Type.h>
#include <fmt/format.h>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::rpc {

void Registry::insert(const std::string& name, Key key, Entry entry) {
  if (!entries_.emplace(name, std::move(entry)).second)
    throw InputError(fmt::format("two functions for calls are registered as '{}'", name));
  names_.emplace(std::move(key), name);
}

std::exception_ptr Registry::translated(std::exception_ptr thrown) const {
  try {
    if (translate_) translate_(thrown);
  } catch (...) {
    return std::current_exception();
  }
  return thrown;
}

const Registry::Entry& Registry::at(const std::string& name) const {
  if (const auto found = entries_.find(name); found != entries_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, entry] : entries_) names.push_back(known);
  const std::string near = closest(name, names);
  throw InputError(fmt::format("no function is registered as '{}'{}", name,
                               near.empty() ? std::string() : fmt::format("; did you mean '{}'?", near)),
                   "All ranks must register the same functions, classes and methods.");
}

const std::string& Registry::find_name(std::type_index type, const std::string& bytes) const {
  if (const auto found = names_.find({type, bytes}); found != names_.end()) return found->second;
  throw InputError(
      fmt::format("a function, class or method is called that was not registered: {}",
                  c10::demangle(type.name())),
      "Give it a name with Registry::function, constructor or method, or register_module(), on all ranks.");
}

}  // namespace strata::rpc
