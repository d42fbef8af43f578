// SPDX-License-Identifier: Apache-2.0
#include "choosers/choice_rules.hpp"
#include "choosers/list_chooser_cpu.hpp"

namespace strata::sampling {
namespace {

class ReplacingRule {
 public:
  ReplacingRule(const store::GraphView&, const PickQuery& query, NoSettings) : query_(query) {}

  void fetch(const NeighborRange&) const {}
  void take(const NeighborRange& range, std::vector<std::uint32_t>& positions) const {
    const std::uint64_t key = choice_key(query_, range);
    for (std::uint64_t pick = 0; pick < static_cast<std::uint64_t>(query_.fanout); ++pick)
      positions.push_back(static_cast<std::uint32_t>(
          below(keyed_word(key, pick), static_cast<std::uint64_t>(range.choices()))));
  }

 private:
  const PickQuery& query_;
};

}  // namespace

template <typename Id>
std::unique_ptr<PickChooser<Id>> make_replacing_chooser(const store::GraphView& view, ThreadPool& pool) {
  return std::make_unique<ListChooser<Id, ReplacingRule, NoSettings>>(view, NoSettings{}, pool);
}
template std::unique_ptr<PickChooser<std::int32_t>> make_replacing_chooser(const store::GraphView&,
                                                                           ThreadPool&);
template std::unique_ptr<PickChooser<std::int64_t>> make_replacing_chooser(const store::GraphView&,
                                                                           ThreadPool&);

}  // namespace strata::sampling
