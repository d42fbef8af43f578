// SPDX-License-Identifier: Apache-2.0
#include "peers.hpp"

namespace strata::dgs {

// Without CUDA there is no memory of GPUs, and no caller needs it.
Peers::Peers(const comm::Machine&, int, std::byte*) {}
Peers::Peers(Peers&&) noexcept = default;
Peers& Peers::operator=(Peers&&) noexcept = default;
Peers::~Peers() = default;
void Peers::close() {}

}  // namespace strata::dgs
