#include "choice_rules.hpp"
#include "list_chooser_cpu.hpp"

namespace strata::sampling {
namespace {

class ReplacingRule {
 public:
  ReplacingRule(const store::GraphView&, const SlotQuery& query, NoSettings) : query_(query) {}

  void fetch(const NeighborRange&) const {}
  void take(const NeighborRange& range, std::vector<std::uint32_t>& positions) const {
    const std::uint64_t key = choice_key(query_, range);
    for (std::uint64_t slot = 0; slot < static_cast<std::uint64_t>(query_.fanout); ++slot)
      positions.push_back(
          static_cast<std::uint32_t>(below(keyed_word(key, slot), static_cast<std::uint64_t>(range.degree))));
  }

 private:
  const SlotQuery& query_;
};

}  // namespace

template <typename Id>
std::unique_ptr<SlotChooser<Id>> make_replacing_chooser(const store::GraphView& view, ThreadPool& pool) {
  return std::make_unique<ListChooser<Id, ReplacingRule, NoSettings>>(view, NoSettings{}, pool);
}
template std::unique_ptr<SlotChooser<std::int32_t>> make_replacing_chooser(const store::GraphView&,
                                                                           ThreadPool&);
template std::unique_ptr<SlotChooser<std::int64_t>> make_replacing_chooser(const store::GraphView&,
                                                                           ThreadPool&);

}  // namespace strata::sampling
