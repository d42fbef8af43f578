// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace strata {

/// XXH3 (64 bits) of a stream of bytes.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void update(const void* data, std::size_t bytes);
  std::uint64_t digest() const;
  void reset();  ///< begins a new stream

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t hash_bytes(const void* data, std::size_t bytes);
std::string hex64(std::uint64_t value);  ///< 16 lower-case digits

}  // namespace strata
