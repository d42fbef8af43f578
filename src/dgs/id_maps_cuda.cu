// SPDX-License-Identifier: Apache-2.0
#include <cub/device/device_scan.cuh>
#include <type_traits>

#include "probing.hpp"
#include "strata/cuda/check.cuh"
#include "strata/cuda/copy.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/launch.cuh"
#include "strata/util/error.hpp"

namespace strata::dgs {
namespace {

using cuda::blocks_for;
using cuda::first_item;
using cuda::item_stride;
using cuda::kThreads;
using cuda::kWarp;
using cuda::kWarpsPerBlock;
using cuda::lane_index;

using Word = unsigned long long;
constexpr Word kEmpty = ~Word{0};

/// An id and where it appears first, side by side: a look-up reads one sector of memory.
struct alignas(16) Place {
  Word id;  ///< kEmpty: none
  Word position;
};

/// Open addressing, and one place more for the id whose bits are those of an empty one.
struct PlaceTable {
  Place* places;  ///< [capacity + 1]
  Count capacity;

  /// Where an id is; else, kEmpty apart, the empty place where it would go.
  __device__ Count find(Word id) const {
    if (id == kEmpty) return capacity;
    for (Count at = first_slot(static_cast<NodeId>(id), capacity);; at = next_slot(at, capacity)) {
      const Word met = places[at].id;
      if (met == id || met == kEmpty) return at;
    }
  }

  /// The place of an id, which others may be putting there, too.
  __device__ Count put(Word id) const {
    if (id == kEmpty) return capacity;
    for (Count at = first_slot(static_cast<NodeId>(id), capacity);; at = next_slot(at, capacity)) {
      const Word met = atomicCAS(&places[at].id, kEmpty, id);
      if (met == id || met == kEmpty) return at;
    }
  }
};

template <typename Id>
__device__ Word word_of(Id id) {
  return static_cast<Word>(static_cast<NodeId>(id));
}

// One thread per id. Of equal ids the first position stays.
template <typename Id>
__global__ void insert(PlaceTable table, const Id* ids, Count size, Count* place_of) {
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>()) {
    const Count at = table.put(word_of(ids[i]));
    atomicMin(&table.places[at].position, static_cast<Word>(i));
    place_of[i] = at;
  }
}

// One thread per id. numbers [size + 1] become 1 where an id appears first.
__global__ void mark_firsts(PlaceTable table, Count size, const Count* place_of, Count* numbers) {
  for (Count i = first_item<Count>(); i <= size; i += item_stride<Count>())
    numbers[i] = i < size && table.places[place_of[i]].position == static_cast<Word>(i) ? 1 : 0;
}

template <typename Id>
__global__ void put_unique(const Id* ids, Count size, const Count* numbers, Id* out) {
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>())
    if (numbers[i + 1] > numbers[i]) out[numbers[i]] = ids[i];
}

template <typename Asked>
__global__ void put_numbers(PlaceTable table, const Count* numbers, const Asked* asked, Count size,
                            Asked* out) {
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>()) {
    const Word position = table.places[table.find(word_of(asked[i]))].position;
    out[i] = static_cast<Asked>(position == kEmpty ? kNowhere : numbers[position]);
  }
}

template <typename Id>
class RelabelingOnGpu final : public Relabeling {
 public:
  RelabelingOnGpu(const Id* ids, Count size, const Workspace& workspace)
      : workspace_(workspace), ids_(ids), size_(size), table_{nullptr, capacity_for(size)} {
    const cuda::DeviceGuard guard(workspace_.stream.device());
    const Count num_places = table_.capacity + 1;
    table_.places = array<Place>(num_places);
    numbers_ = array<Count>(size + 1);
    Count* const place_of = array<Count>(size);
    cuda::fill_async(table_.places, 0xFF, static_cast<std::size_t>(num_places) * sizeof(Place),
                     workspace_.stream);
    insert<<<blocks_for(size), kThreads, 0, stream()>>>(table_, ids, size, place_of);
    cuda::check_launch("insert");
    mark_firsts<<<blocks_for(size + 1), kThreads, 0, stream()>>>(table_, size, place_of, numbers_);
    cuda::check_launch("mark_firsts");
    scan();
    cuda::copy_async(&num_unique_, numbers_ + size, sizeof(num_unique_), workspace_.stream);
    workspace_.stream.synchronize();
  }

  Count num_unique() const override { return num_unique_; }

  void unique(void* out) const override {
    const cuda::DeviceGuard guard(workspace_.stream.device());
    put_unique<<<blocks_for(size_), kThreads, 0, stream()>>>(ids_, size_, numbers_, static_cast<Id*>(out));
    cuda::check_launch("put_unique");
  }

  void relabel(const IdSpan& ids, void* out) const override {
    const cuda::DeviceGuard guard(workspace_.stream.device());
    ids.visit([&](const auto* asked) {
      using Asked = std::remove_cvref_t<decltype(*asked)>;
      put_numbers<<<blocks_for(ids.size), kThreads, 0, stream()>>>(table_, numbers_, asked, ids.size,
                                                                   static_cast<Asked*>(out));
    });
    cuda::check_launch("put_numbers");
  }

 private:
  CUstream_st* stream() const { return workspace_.stream.get(); }
  template <typename T>
  T* array(Count size) const {
    return static_cast<T*>(workspace_.allocate(static_cast<std::size_t>(size) * sizeof(T)));
  }
  void scan() const {
    std::size_t bytes = 0;
    cuda::check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, numbers_, numbers_, size_ + 1, stream()),
                "cub::DeviceScan");
    cuda::check(cub::DeviceScan::ExclusiveSum(workspace_.allocate(bytes), bytes, numbers_, numbers_,
                                              size_ + 1, stream()),
                "cub::DeviceScan");
  }

  const Workspace& workspace_;
  const Id* ids_;
  Count size_;
  PlaceTable table_;
  Count* numbers_ = nullptr;  // [size + 1] by position: unique ids before it
  Count num_unique_ = 0;
};

template <typename Id>
struct AtomicId {
  using Type = std::conditional_t<sizeof(Id) == 8, unsigned long long, unsigned int>;
};

// One thread per key.
template <typename Id>
__global__ void put_keys(const Id* keys, const Id* values, Count size, Id* to_keys, Id* to_values,
                         Count capacity) {
  using Raw = typename AtomicId<Id>::Type;
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>()) {
    const Id key = keys[i];
    if (key < 0) continue;
    for (Count slot = first_slot(key, capacity);; slot = next_slot(slot, capacity)) {
      const auto met = static_cast<Id>(
          atomicCAS(reinterpret_cast<Raw*>(to_keys + slot), static_cast<Raw>(Id{-1}), static_cast<Raw>(key)));
      if (met != Id{-1} && met != key) continue;
      to_values[slot] = values[i];
      break;
    }
  }
}

// One warp per id: a lookup by all lanes alike, then the row in words. Cold rows cross PCIe in place.
template <typename Id, typename Unit>
__global__ void __launch_bounds__(kThreads)
    fetch_rows(HashMapView map, const Id* ids, Count size, const __grid_constant__ RowSource hot,
               const __grid_constant__ RowSource cold, char* out) {
  const Count units = cold.row_bytes / static_cast<Count>(sizeof(Unit));
  const Count warps = static_cast<Count>(gridDim.x) * kWarpsPerBlock;
  for (Count i = static_cast<Count>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp; i < size;
       i += warps) {
    const Count value = find_value(static_cast<const Id*>(map.keys), static_cast<const Id*>(map.values),
                                   map.capacity, ids[i]);
    const auto* const from =
        reinterpret_cast<const Unit*>(value == kNowhere ? row_at(cold, ids[i]) : row_at(hot, value));
    auto* const to = reinterpret_cast<Unit*>(out + i * cold.row_bytes);
    for (Count u = lane_index(); u < units; u += kWarp) to[u] = from == nullptr ? Unit{} : from[u];
  }
}

bool is_aligned(const RowSource& source, std::size_t bytes) {
  const auto fits = [&](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % bytes == 0; };
  bool all = fits(source.rows.rest) && static_cast<std::size_t>(source.row_bytes) % bytes == 0;
  for (const void* piece : source.rows.pieces) all = all && fits(piece);
  return all;
}

/// Calls run with a value of the widest word that both sources and the result are aligned to.
template <typename Run>
void visit_unit(const RowSource& hot, const RowSource& cold, Run&& run) {
  const auto fits = [&](std::size_t bytes) { return is_aligned(hot, bytes) && is_aligned(cold, bytes); };
  if (fits(sizeof(uint4))) return run(uint4{});
  if (fits(sizeof(std::uint32_t))) return run(std::uint32_t{});
  if (fits(sizeof(std::uint16_t))) return run(std::uint16_t{});
  run(std::uint8_t{});
}

}  // namespace

std::unique_ptr<Relabeling> make_relabeling_on_gpu(const IdSpan& ids, const Workspace& workspace) {
  return ids.visit([&](const auto* typed) -> std::unique_ptr<Relabeling> {
    using Id = std::remove_cvref_t<decltype(*typed)>;
    return std::make_unique<RelabelingOnGpu<Id>>(typed, ids.size, workspace);
  });
}

void fill_on_gpu(const HashMapView& map, const IdSpan& keys, const IdSpan& values,
                 const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  keys.visit([&](const auto* typed) {
    using Id = std::remove_cvref_t<decltype(*typed)>;
    put_keys<<<blocks_for(keys.size), kThreads, 0, stream.get()>>>(
        typed, static_cast<const Id*>(values.data), keys.size, static_cast<Id*>(map.keys),
        static_cast<Id*>(map.values), map.capacity);
  });
  cuda::check_launch("put_keys");
}

void fetch_on_gpu(const HashMapView& map, const IdSpan& ids, const RowSource& hot, const RowSource& cold,
                  void* out, const cuda::Stream& stream) {
  const cuda::DeviceGuard guard(stream.device());
  ids.visit([&](const auto* typed) {
    visit_unit(hot, cold, [&](auto unit) {
      fetch_rows<std::remove_cvref_t<decltype(*typed)>, decltype(unit)>
          <<<blocks_for(ids.size * kWarp), kThreads, 0, stream.get()>>>(map, typed, ids.size, hot, cold,
                                                                        static_cast<char*>(out));
    });
  });
  cuda::check_launch("fetch_rows");
}

}  // namespace strata::dgs
