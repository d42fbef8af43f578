// SPDX-License-Identifier: Apache-2.0
#include "chooser.hpp"

#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

#include "arrays.hpp"

namespace strata::python {
namespace {

using sampling::ChosenNeighbors;
using sampling::PickQuery;

/// A copy of the query's nodes, because they are gone after the call.
nb::object copy_of(std::span<const NodeId> nodes) {
  auto* const copy = new std::vector<NodeId>(nodes.begin(), nodes.end());
  const nb::capsule owner(copy, [](void* p) noexcept { delete static_cast<std::vector<NodeId>*>(p); });
  return array_of(copy->data(), {std::ssize(*copy)}, {}, owner).cast(nb::rv_policy::reference);
}

void assign(std::vector<std::int64_t>& to, const HostIdArray& from) {
  to.assign(from.data(), from.data() + from.size());
}

class PythonChooser final : public sampling::NeighborChooser {
 public:
  explicit PythonChooser(nb::object chooser) : chooser_(std::move(chooser)) {}
  ~PythonChooser() override {
    const nb::gil_scoped_acquire guard;
    chooser_.reset();
  }

  /// Calls Python on a thread of C++. An exception goes to the taker of the batch.
  void choose(const PickQuery& query, ChosenNeighbors& out) override {
    const nb::gil_scoped_acquire guard;
    const nb::object chosen = chooser_.attr("_choose")(copy_of(query.nodes), query.fanout, query.hop,
                                                       query.key.seed, query.key.epoch, query.key.step);
    assign(out.counts, nb::cast<HostIdArray>(chosen[0]));
    assign(out.neighbors, nb::cast<HostIdArray>(chosen[1]));
    out.edge_ids.clear();
    if (!chosen[2].is_none()) assign(out.edge_ids, nb::cast<HostIdArray>(chosen[2]));
  }

 private:
  nb::object chooser_;
};

}  // namespace

std::shared_ptr<sampling::NeighborChooser> chooser_of(nb::object chooser) {
  return std::make_shared<PythonChooser>(std::move(chooser));
}

}  // namespace strata::python
