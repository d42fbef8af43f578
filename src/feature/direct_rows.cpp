// SPDX-License-Identifier: Apache-2.0
#include "direct_rows.hpp"

namespace strata::feature {

#if !STRATA_WITH_CUDA
std::unique_ptr<DirectRows> make_direct_rows(const LocalRows&, const RowExchangeContext&, Device) {
  return nullptr;
}
#endif

}  // namespace strata::feature
