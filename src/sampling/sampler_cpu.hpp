// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "strata/cuda/buffer.hpp"
#include "strata/sampling/sampler.hpp"

namespace strata::sampling {

/// Throws InputError for options that are not valid for the view.
void check_sampler(const SamplerOptions& options, const store::GraphView& view, int num_buffers);

/// The sampler for graphs in host memory. Its results lie in host memory of the kind `memory`. See
/// make_sampler(). REQUIRES: valid options.
std::unique_ptr<MiniBatchSampler> make_cpu_sampler(const store::GraphView& view,
                                                   const SamplerOptions& options,
                                                   const ExchangeContext& exchange, int num_buffers,
                                                   ThreadPool& pool,
                                                   cuda::Memory memory = cuda::Memory::host);

}  // namespace strata::sampling
