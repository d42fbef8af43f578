// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cereal/archives/binary.hpp>
#include <cereal/cereal.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace strata::rpc {

/// Reads what cereal::BinaryOutputArchive wrote, from bytes that may be damaged: no container is made larger
/// than the bytes that are left could fill, if each of its elements takes a byte at least. A view. Throws
/// cereal::Exception.
class BoundedInput : public cereal::InputArchive<BoundedInput, cereal::AllowEmptyClassElision> {
 public:
  explicit BoundedInput(std::string_view bytes)
      : cereal::InputArchive<BoundedInput, cereal::AllowEmptyClassElision>(this), left_(bytes) {}

  void read(void* to, std::size_t bytes) {
    check(bytes);
    if (bytes > 0) std::memcpy(to, left_.data(), bytes);
    left_.remove_prefix(bytes);
  }
  void check(std::uint64_t bytes) const {
    if (bytes > left_.size()) throw cereal::Exception("a message is cut off");
  }

 private:
  std::string_view left_;
};

template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
void load(BoundedInput& input, T& value) {
  input.read(&value, sizeof(value));
}
template <typename T>
void load(BoundedInput& input, cereal::NameValuePair<T>& pair) {
  input(pair.value);
}
template <typename T>
void load(BoundedInput& input, cereal::SizeTag<T>& tag) {
  input(tag.size);
  input.check(tag.size);
}
template <typename T>
void load(BoundedInput& input, cereal::BinaryData<T>& data) {
  input.read(data.data, static_cast<std::size_t>(data.size));
}

}  // namespace strata::rpc

namespace cereal::traits::detail {
template <>
struct get_output_from_input<strata::rpc::BoundedInput> {
  using type = cereal::BinaryOutputArchive;
};
}  // namespace cereal::traits::detail
