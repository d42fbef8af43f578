// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strata::train {

/// Rethrows the exception that is being handled. If libtorch or the system refused memory, it becomes an
/// OutOfMemory with the option to lower.
[[noreturn]] void rethrow_explained();

}  // namespace strata::train
