// SPDX-License-Identifier: Apache-2.0
#include "tuning/stage_sms.hpp"

#include <fmt/format.h>

#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "torch_device.hpp"

namespace strata::train {

StageSms::StageSms(Device device, batches::Pipeline& pipeline)
    : device_(device), pipeline_(pipeline), whole_(current_stream(device)), stream_(current_stream(device)) {}

StageSms::~StageSms() { use_stream(whole_); }

void StageSms::move_to(const cuda::SmSplit& split) {
  stream_.synchronize();
  pipeline_.run_on(split.first);
  stream_ = split.second.is_all() ? cuda::Stream::borrow(device_, whole_.get())
                                  : cuda::Stream(device_, cuda::kHighestPriority, split.second);
  use_stream(stream_);
  return_torch_memory();  // memory that was freed on the old stream could be reused only there
  split_ = split;
}

std::string StageSms::describe() const {
  const int all = cuda::num_multiprocessors(device_.index);
  const auto count = [&](const cuda::SmGroup& group) { return group.is_all() ? all : group.num_sms(); };
  return fmt::format("loading on {} of {} SMs, training on {}", count(split_.first), all,
                     count(split_.second));
}

}  // namespace strata::train
