// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/cuda/sm_group.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::python {

/// A GPU's SMs for loading and for training, and a stream for each whose kernels run there.
struct LoadingSplit {
  LoadingSplit(Device device, const cuda::SmShares& shares)
      : sms(cuda::split_sms(device, shares)),
        loading(device, 0, sms.first),
        training(device, cuda::kHighestPriority, sms.second) {}
  cuda::SmSplit sms;
  cuda::Stream loading, training;
};

}  // namespace strata::python
