// SPDX-License-Identifier: Apache-2.0
#include "memory/host_pages.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "strata/util/error.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"
#include "strata/util/threads.hpp"
#include "strata/util/types.hpp"

namespace strata::tensor {
namespace {

int populate_piece(const Bytes& piece) {
  for (;;) {
    if (::madvise(piece.data, piece.size, MADV_POPULATE_WRITE) == 0 || errno == EINVAL) return 0;
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
}

}  // namespace

int populate(const Bytes& bytes, int num_threads) {
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  const auto pieces = static_cast<Count>((bytes.size + kPiece - 1) / kPiece);
  std::atomic<int> failure = 0;
  ThreadPool pool(static_cast<int>(std::clamp<Count>(pieces, 1, num_threads)));
  pool.parallel_for(pieces, 1, [&](Count begin, Count end) {
    for (Count piece = begin; piece < end && failure == 0; ++piece) {
      const std::size_t offset = at(piece) * kPiece;
      if (const int code = populate_piece({bytes.data + offset, std::min(kPiece, bytes.size - offset)});
          code != 0)
        failure = code;
    }
  });
  return failure;
}

bool can_populate(const Bytes& page) {
  return ::madvise(page.data, page.size, MADV_POPULATE_WRITE) == 0 || errno != EINVAL;
}

void take_private_pages(const Bytes& bytes, int num_threads, const std::string& name) {
  if (const int code = populate(bytes, num_threads); code != 0)
    host_memory_full(bytes.size, name, std::generic_category().message(code));
}

void host_memory_full(std::size_t bytes, const std::string& name, const std::string& reason) {
  throw OutOfMemory(fmt::format("no room for {} in host memory: wanted {}, free {} ({})", name,
                                format_bytes(static_cast<std::int64_t>(bytes)),
                                format_bytes(available_host_bytes()), reason),
                    "Use more machines, or store features as bf16 (strata-partition build --features bf16).");
}

}  // namespace strata::tensor
