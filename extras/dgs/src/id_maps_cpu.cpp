// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "probing.hpp"
#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

/// A table of positions in the ids, whose keys are the ids there. A slot begins at kNowhere.
class RelabelingOnCpu final : public Relabeling {
 public:
  explicit RelabelingOnCpu(const IdSpan& ids) : ids_(ids), numbers_(at(capacity_for(ids.size)), kNowhere) {
    for (Count i = 0; i < ids.size; ++i) {
      Count& number = numbers_[slot_of(ids[i])];
      if (number != kNowhere) continue;
      number = static_cast<Count>(firsts_.size());
      firsts_.push_back(i);
    }
  }

  Count num_unique() const override { return static_cast<Count>(firsts_.size()); }

  void unique(void* out) const override {
    ids_.visit([&](const auto* typed) {
      using Id = std::remove_cvref_t<decltype(*typed)>;
      std::ranges::transform(firsts_, static_cast<Id*>(out), [&](Count first) { return typed[first]; });
    });
  }

  void relabel(const IdSpan& ids, void* out) const override {
    ids.visit([&](const auto* typed) {
      using Id = std::remove_cvref_t<decltype(*typed)>;
      for (Count i = 0; i < ids.size; ++i)
        static_cast<Id*>(out)[i] = static_cast<Id>(numbers_[slot_of(typed[i])]);
    });
  }

 private:
  /// The slot of an id, or the empty one where it would go.
  std::size_t slot_of(NodeId id) const {
    const auto capacity = static_cast<Count>(numbers_.size());
    for (Count slot = first_slot(id, capacity);; slot = next_slot(slot, capacity)) {
      const Count number = numbers_[at(slot)];
      if (number == kNowhere || ids_[firsts_[at(number)]] == id) return at(slot);
    }
  }

  IdSpan ids_;
  std::vector<Count> numbers_;  // by slot
  std::vector<Count> firsts_;   // by number: where it first appears
};

template <typename Id>
void fill_typed(const HashMapView& map, const IdSpan& keys, const IdSpan& values) {
  auto* const to_keys = static_cast<Id*>(map.keys);
  for (Count i = 0; i < keys.size; ++i) {
    const auto key = static_cast<Id>(keys[i]);
    if (key < 0)
      throw InputError(fmt::format("key {} is {}", i, keys[i]), "Keys are ids of nodes, not negative.");
    Count slot = first_slot(key, map.capacity);
    while (to_keys[slot] != Id{-1} && to_keys[slot] != key) slot = next_slot(slot, map.capacity);
    to_keys[slot] = key;
    static_cast<Id*>(map.values)[slot] = static_cast<Id>(values[i]);
  }
}

template <typename Id>
void fetch_typed(const HashMapView& map, const IdSpan& ids, const RowSource& hot, const RowSource& cold,
                 char* out) {
  for (Count i = 0; i < ids.size; ++i) {
    const NodeId id = ids[i];
    const Count value = find_value(static_cast<const Id*>(map.keys), static_cast<const Id*>(map.values),
                                   map.capacity, static_cast<Id>(id));
    const char* const row = value == kNowhere ? row_at(cold, id) : row_at(hot, value);
    if (row == nullptr) {
      throw std::out_of_range(fmt::format("id {} is {}, which has row {} of {} {}", i, id,
                                          value == kNowhere ? id : value,
                                          value == kNowhere ? cold.rows.size : hot.rows.size,
                                          value == kNowhere ? "on the host" : "in the cache"));
    }
    std::memcpy(out + i * cold.row_bytes, row, at(cold.row_bytes));
  }
}

}  // namespace

Count capacity_for(Count num_keys) {
  return static_cast<Count>(std::bit_ceil(static_cast<std::uint64_t>(std::max<Count>(1, 2 * num_keys))));
}

std::unique_ptr<Relabeling> make_relabeling(const IdSpan& ids, const Workspace& workspace) {
#if STRATA_WITH_CUDA
  if (workspace.stream.device().is_cuda()) return make_relabeling_on_gpu(ids, workspace);
#endif
  static_cast<void>(workspace);
  return std::make_unique<RelabelingOnCpu>(ids);
}

void fill(const HashMapView& map, const IdSpan& keys, const IdSpan& values, const cuda::Stream& stream) {
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return fill_on_gpu(map, keys, values, stream);
#endif
  static_cast<void>(stream);
  if (map.wide) return fill_typed<std::int64_t>(map, keys, values);
  fill_typed<std::int32_t>(map, keys, values);
}

void fetch(const HashMapView& map, const IdSpan& ids, const RowSource& hot, const RowSource& cold, void* out,
           const cuda::Stream& stream) {
#if STRATA_WITH_CUDA
  if (stream.device().is_cuda()) return fetch_on_gpu(map, ids, hot, cold, out, stream);
#endif
  static_cast<void>(stream);
  if (map.wide) return fetch_typed<std::int64_t>(map, ids, hot, cold, static_cast<char*>(out));
  fetch_typed<std::int32_t>(map, ids, hot, cold, static_cast<char*>(out));
}

}  // namespace strata::dgs
