#pragma once
#include <memory>

#include "strata/sampling/sampler.hpp"

namespace strata::sampling {

/// The sampler for graphs and results in host memory. See make_sampler; options are valid.
std::unique_ptr<MiniBatchSampler> make_cpu_sampler(const store::GraphView& view,
                                                   const SamplerOptions& options,
                                                   const ExchangeContext& exchange, int num_slots,
                                                   ThreadPool& pool);

}  // namespace strata::sampling
