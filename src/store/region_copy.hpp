#pragma once
#include <algorithm>
#include <cstddef>

#include "strata/cuda/runtime.hpp"

namespace strata::store {

/// Copies between a GPU and a HostRegion, asynchronously. One copy must not cross the border of two
/// registered blocks; those begin at multiples of 64 GiB from the region's begin.
class RegionCopy {
 public:
  RegionCopy(void* region, const cuda::Stream& stream)
      : region_(static_cast<std::byte*>(region)), stream_(stream) {}

  void to_device(void* device, std::size_t offset, std::size_t bytes) const {
    in_pieces(offset, bytes, [&](std::size_t done, std::size_t piece) {
      cuda::copy_async(static_cast<std::byte*>(device) + done, region_ + offset + done, piece, stream_);
    });
  }
  void from_device(const void* device, std::size_t offset, std::size_t bytes) const {
    in_pieces(offset, bytes, [&](std::size_t done, std::size_t piece) {
      cuda::copy_async(region_ + offset + done, static_cast<const std::byte*>(device) + done, piece, stream_);
    });
  }

 private:
  template <typename Copy>
  static void in_pieces(std::size_t offset, std::size_t bytes, Copy&& copy) {
    constexpr std::size_t kPiece = std::size_t{1} << 30;
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t piece = std::min(bytes - done, kPiece - (offset + done) % kPiece);
      copy(done, piece);
      done += piece;
    }
  }

  std::byte* region_;
  const cuda::Stream& stream_;
};

}  // namespace strata::store
