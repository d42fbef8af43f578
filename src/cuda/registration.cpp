// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "backend.hpp"
#include "registered_blocks.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::cuda {

std::size_t registration_block() {
  static const std::size_t bytes = [] {
    constexpr std::size_t kDefault = std::size_t{64} << 30, kPage = 4096;
    const char* const wanted = std::getenv("STRATA_REGISTRATION_BLOCK");
    if (wanted == nullptr) return kDefault;
    const auto block = at(parse_bytes(wanted));
    if (block == 0 || block % kPage != 0) {
      throw InputError(fmt::format("STRATA_REGISTRATION_BLOCK: {} is no multiple of {} bytes", wanted, kPage),
                       "Leave it out, or give a size such as 64KiB.");
    }
    return block;
  }();
  return bytes;
}

Registration::Registration(void* data, std::size_t bytes) {
  if (device_count() == 0 || bytes == 0) return;
  data_ = data;
  try {
    // bytes_ grows with each block, so that after a failure exactly the registered blocks are unregistered.
    for_each_piece(data, data, bytes, registration_block(), [&](std::size_t offset, std::size_t size) {
      backend::register_host(static_cast<std::byte*>(data) + offset, size);
      bytes_ += size;
    });
  } catch (...) {
    *this = Registration();
    throw;
  }
}

Registration::Registration(Registration&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  Registration old(std::move(*this));
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Registration::~Registration() {
  if (bytes_ == 0) return;
  for_each_piece(data_, data_, bytes_, registration_block(), [&](std::size_t offset, std::size_t /*size*/) {
    backend::unregister_host(static_cast<std::byte*>(data_) + offset);
  });
}

}  // namespace strata::cuda
