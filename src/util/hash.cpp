// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <xxhash.h>

#include "strata/util/files.hpp"
#if STRATA_XXHASH_DISPATCH
#include <xxh_x86dispatch.h>  // the widest vectors of the CPU: four times as fast as SSE2
#endif

#include <new>

namespace strata {

struct Hasher::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> xxh{XXH3_createState()};
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  if (!state_->xxh) throw std::bad_alloc();
  XXH3_64bits_reset(state_->xxh.get());
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(const void* data, std::size_t bytes) {
  if (bytes > 0) XXH3_64bits_update(state_->xxh.get(), data, bytes);
}
void Hasher::reset() { XXH3_64bits_reset(state_->xxh.get()); }
std::uint64_t Hasher::digest() const { return XXH3_64bits_digest(state_->xxh.get()); }

std::uint64_t hash_bytes(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace strata
