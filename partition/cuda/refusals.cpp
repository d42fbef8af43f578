// SPDX-License-Identifier: Apache-2.0
#include "cuda/refusals.hpp"

#include <fmt/format.h>

#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::partition {

void refuse_device_memory(std::int64_t wanted_bytes, std::int64_t free_bytes, std::int64_t total_bytes) {
  throw OutOfMemory(
      fmt::format("the GPU has no room for an array of the cut: wanted {}, free {} of {}",
                  format_bytes(wanted_bytes), format_bytes(free_bytes), format_bytes(total_bytes)),
      "Use --device cpu, which gives the same parts, or a GPU with more free memory.");
}

void refuse_device(const std::string& why) {
  throw InputError(
      "--device cuda: there is no CUDA device here" + (why.empty() ? why : fmt::format(" ({})", why)),
      "Use --device cpu, which gives the same parts. nvidia-smi shows which devices the driver sees.");
}

}  // namespace strata::partition
