// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cereal/archives/binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "strata/rpc/bounded_input.hpp"

/// Messages of agents besides arguments and results.
namespace strata::rpc {

template <typename T>
std::string text_of(const T& value) {
  std::ostringstream stream;
  cereal::BinaryOutputArchive archive(stream);
  archive(value);
  return std::move(stream).str();
}

/// Throws cereal::Exception if the text is cut off.
template <typename T>
T parse(const std::string& text) {
  BoundedInput archive(text);
  T value;
  archive(value);
  return value;
}

}  // namespace strata::rpc
