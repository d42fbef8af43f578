// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace strata::comm {

/// What carries the messages of this process over MPI.
struct TransportFacts {
  /// "btl/tcp", "btl/vader", "pml/ob1": components of Open MPI that are loaded. Empty if they are not known,
  /// for example because they are part of the library.
  std::vector<std::string> components;
  bool cuda_aware = false;  ///< MPI takes addresses in the memory of GPUs
};

/// The facts of this process. REQUIRES: MPI runs.
TransportFacts transport_facts();

}  // namespace strata::comm
