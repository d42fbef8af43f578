// SPDX-License-Identifier: Apache-2.0
#include "choosers/pick_chooser.hpp"

namespace strata::sampling {

template <typename Id>
std::unique_ptr<PickChooser<Id>> make_pick_chooser(const store::GraphView& view,
                                                   const SamplerOptions& options, ThreadPool& pool) {
  if (options.chooser) return make_user_chooser<Id>(view, *options.chooser, options.edge_ids);
  if (view.sublists.first != nullptr) return make_sublist_chooser<Id>(view, options, pool);
  switch (options.method) {
    case Method::labor:
      return make_labor_chooser<Id>(view, options.layer_dependent, pool);
    case Method::weighted:
      return options.replace ? make_weighted_replacing_chooser<Id>(view, pool)
                             : make_weighted_chooser<Id>(view, pool);
    case Method::uniform:
      break;
  }
  return options.replace ? make_replacing_chooser<Id>(view, pool) : make_uniform_chooser<Id>(view, pool);
}
template std::unique_ptr<PickChooser<std::int32_t>> make_pick_chooser(const store::GraphView&,
                                                                      const SamplerOptions&, ThreadPool&);
template std::unique_ptr<PickChooser<std::int64_t>> make_pick_chooser(const store::GraphView&,
                                                                      const SamplerOptions&, ThreadPool&);

}  // namespace strata::sampling
