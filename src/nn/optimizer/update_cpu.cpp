// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>

#include "optimizer/update.hpp"

namespace strata::nn {

void update_cpu(const Update& update) {
  double square = 0;
  if (update.needs_norm()) {
    at::parallel_for(0, kNormPieces, 8, [&](std::int64_t begin, std::int64_t end) {
      for (auto piece = static_cast<int>(begin); piece < static_cast<int>(end); ++piece) {
        double sum = 0;
        for (Count i = update.piece_begin(piece); i < update.piece_begin(piece + 1); ++i)
          sum += static_cast<double>(update.gradients[i]) * static_cast<double>(update.gradients[i]);
        update.norm_pieces[piece] = sum;
      }
    });
    for (int piece = 0; piece < kNormPieces; ++piece) square += update.norm_pieces[piece];
  }
  update.begin(square);
  if (update.scalars->skip != 0) return;
  constexpr Count kGrain = 16384;
  at::parallel_for(0, update.count, kGrain, [&update](Count begin, Count end) {
    const UpdateScalars scalars = *update.scalars;
    for (Count i = begin; i < end; ++i) update.element(i, scalars);
  });
}

}  // namespace strata::nn
