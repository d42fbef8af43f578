// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/sampling/sampler.hpp"

namespace strata::sampling {

/// The sampler for graphs that a GPU reads. Its results lie in the GPU's memory. See make_sampler().
/// REQUIRES: valid options.
std::unique_ptr<MiniBatchSampler> make_cuda_sampler(const store::GraphView& view,
                                                    const SamplerOptions& options,
                                                    const ExchangeContext& exchange, int num_buffers);

}  // namespace strata::sampling
