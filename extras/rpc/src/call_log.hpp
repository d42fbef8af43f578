// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// The log of calls: when a call ends, its caller writes a line of the level `debug`.
namespace strata::rpc {

struct Parcel;
struct TensorHead;

bool logs_calls();  ///< whether these lines are read; otherwise a call pays for nothing else

/// The contents of a message: bytes of values and tensors, by channel.
struct Cargo {
  std::map<std::string_view, std::uint64_t> bytes_by_way = {};
  std::string text() const;  ///< "4.0 MiB shared-memory, 74 B tcp"
};
/// What a message between two ranks carries.
Cargo cargo_of(std::size_t payload_bytes, const std::vector<TensorHead>& tensors);
/// What a parcel that stays on its rank carries.
Cargo cargo_of(const Parcel& parcel);

}  // namespace strata::rpc
