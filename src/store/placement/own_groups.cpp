// SPDX-License-Identifier: Apache-2.0
#include "placement/own_groups.hpp"

namespace strata::store {
namespace {

using placement::Keepable;
using placement::KeepGroup;

/// What all rows of a table have in common.
struct Row {
  Keepable kind{};
  std::int64_t bytes = 0;
  double saved_seconds = 0;  ///< by an access
  int stripes = 1;
};

void append_groups(const placement::HeatCurve& curve, const Row& row, std::vector<KeepGroup>& groups) {
  placement::HeatCurve::Point before;
  for (const placement::HeatCurve::Point& point : curve.points) {
    const Count count = point.rows - before.rows;
    groups.push_back({.kind = row.kind,
                      .count = count,
                      .bytes = (count * row.bytes + row.stripes - 1) / row.stripes,
                      .saved_seconds = (point.accesses - before.accesses) * row.saved_seconds});
    before = point;
  }
}

}  // namespace

std::vector<KeepGroup> own_groups(const BatchAccesses& accesses, const OwnSizes& sizes,
                                  const ExchangeCosts& costs) {
  std::vector<KeepGroup> groups;
  if (costs.near <= 0 || costs.far <= 0) return groups;
  const Row row{.kind = Keepable::own_rows,
                .bytes = sizes.row_bytes,
                .saved_seconds = static_cast<double>(sizes.row_bytes) * (1 / costs.far - 1 / costs.near),
                .stripes = sizes.stripes};
  const Row entry{.kind = Keepable::own_lists,
                  .bytes = sizes.entry_bytes,
                  .saved_seconds = costs.host_list_seconds,
                  .stripes = sizes.stripes};
  for (const placement::HeatCurve& curve : accesses.features) append_groups(curve, row, groups);
  for (const placement::HeatCurve& curve : accesses.list_visits) append_groups(curve, entry, groups);
  return groups;
}

}  // namespace strata::store
