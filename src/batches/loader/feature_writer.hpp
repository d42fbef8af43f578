// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>

#include "learned/owner_exchange.hpp"
#include "learned/row_groups.hpp"
#include "strata/batches/graph.hpp"

namespace strata::batches {

/// Writes feature rows of any machine from any rank. An owner of what that takes.
class FeatureWriter {
 public:
  FeatureWriter(Runtime& runtime, const store::MachineGraph& graph);  ///< collective

  /// As Graph::write_features(), once arguments are checked.
  void write(store::MachineGraph& graph, const GivenRows& given, const cuda::Stream& stream);
  void close();  ///< collective

 private:
  Runtime& runtime_;
  RowOwners owners_;
  std::unique_ptr<RowGrouper> grouper_;
  std::optional<OwnerExchange> exchange_;  // with several ranks
};

}  // namespace strata::batches
