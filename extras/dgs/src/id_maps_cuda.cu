// SPDX-License-Identifier: Apache-2.0
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <type_traits>
#include <variant>

#include "probing.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/kernels.cuh"
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

template <typename Id>
__host__ __device__ Word word_of(Id id) {
  return static_cast<Word>(static_cast<NodeId>(id));
}

/// An id and where it appears first, side by side: a look-up reads one sector of memory.
struct alignas(16) Place {
  Word id;  ///< kEmpty: none
  Word position;
};

/// Positions of any ids: open addressing, and one more place for the id that has the bits of an empty one.
struct HashedPositions {
  Place* places;  ///< [capacity + 1], all bits set
  Count capacity;

  __device__ void put(Word id, Count position) const {
    Count at = id == kEmpty ? capacity : first_slot(static_cast<NodeId>(id), capacity);
    while (at < capacity) {
      const Word met = atomicCAS(&places[at].id, kEmpty, id);
      if (met == id || met == kEmpty) break;
      at = next_slot(at, capacity);
    }
    atomicMin(&places[at].position, static_cast<Word>(position));
  }

  /// The first position of an id, or kEmpty.
  __device__ Word first_of(Word id) const {
    Count at = id == kEmpty ? capacity : first_slot(static_cast<NodeId>(id), capacity);
    while (at < capacity && places[at].id != id && places[at].id != kEmpty) at = next_slot(at, capacity);
    return places[at].position;
  }
};

/// Positions of ids that are hardly larger than their number: an array by id; the L2 cache holds much of it.
struct ListedPositions {
  using Position = unsigned int;
  static constexpr Position kNone = ~Position{0};
  static constexpr Count kSpread = 8;  // times as many ids as positions take no more memory than hashing them

  Position* positions;  ///< [size], all bits set
  Word size;

  static bool fits(Word largest_id, Count num_positions) {
    return num_positions < static_cast<Count>(kNone) &&
           largest_id < static_cast<Word>(kSpread) * static_cast<Word>(num_positions);
  }

  __device__ void put(Word id, Count position) const {
    atomicMin(positions + id, static_cast<Position>(position));
  }
  __device__ Word first_of(Word id) const {
    const Position found = id < size ? positions[id] : kNone;
    return found == kNone ? kEmpty : found;
  }
};

// One thread per id. Of equal ids the first position stays.
template <typename Positions, typename Id>
__global__ void insert(Positions positions, const Id* ids, Count size) {
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>()) positions.put(word_of(ids[i]), i);
}

// One thread per id. numbers [size + 1] become 1 where an id appears first.
template <typename Positions, typename Id>
__global__ void mark_firsts(Positions positions, const Id* ids, Count size, Count* numbers) {
  for (Count i = first_item<Count>(); i <= size; i += item_stride<Count>())
    numbers[i] = i < size && positions.first_of(word_of(ids[i])) == static_cast<Word>(i) ? 1 : 0;
}

template <typename Id>
__global__ void put_unique(const Id* ids, Count size, const Count* numbers, Id* out) {
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>())
    if (numbers[i + 1] > numbers[i]) out[numbers[i]] = ids[i];
}

template <typename Positions, typename Asked>
__global__ void put_numbers(Positions positions, const Count* numbers, const Asked* asked, Count size,
                            Asked* out) {
  for (Count i = first_item<Count>(); i < size; i += item_stride<Count>()) {
    const Word position = positions.first_of(word_of(asked[i]));
    out[i] = static_cast<Asked>(position == kEmpty ? kNowhere : numbers[position]);
  }
}

template <typename Id>
class RelabelingOnGpu final : public Relabeling {
 public:
  RelabelingOnGpu(const Id* ids, Count size, const Workspace& workspace)
      : workspace_(workspace), ids_(ids), size_(size) {
    const cuda::DeviceGuard guard(workspace_.stream.device());
    positions_ = make_positions();
    numbers_ = array<Count>(size + 1);
    std::visit(
        [&](const auto& positions) {
          insert<<<blocks_for(size), kThreads, 0, stream()>>>(positions, ids, size);
          cuda::check_launch("insert");
          mark_firsts<<<blocks_for(size + 1), kThreads, 0, stream()>>>(positions, ids, size, numbers_);
          cuda::check_launch("mark_firsts");
        },
        positions_);
    scan();
    num_unique_ = value_of(numbers_ + size);
  }

  Count num_unique() const override { return num_unique_; }

  void unique(void* out) const override {
    const cuda::DeviceGuard guard(workspace_.stream.device());
    put_unique<<<blocks_for(size_), kThreads, 0, stream()>>>(ids_, size_, numbers_, static_cast<Id*>(out));
    cuda::check_launch("put_unique");
  }

  void relabel(const IdSpan& ids, void* out) const override {
    const cuda::DeviceGuard guard(workspace_.stream.device());
    const auto put = [&](const auto& positions, const auto* asked) {
      using Asked = std::remove_cvref_t<decltype(*asked)>;
      put_numbers<<<blocks_for(ids.size), kThreads, 0, stream()>>>(positions, numbers_, asked, ids.size,
                                                                   static_cast<Asked*>(out));
    };
    ids.visit([&](const auto* asked) {
      std::visit([&](const auto& positions) { put(positions, asked); }, positions_);
    });
    cuda::check_launch("put_numbers");
  }

 private:
  using Positions = std::variant<HashedPositions, ListedPositions>;

  Positions make_positions() const {
    if (const Word largest = largest_id(); ListedPositions::fits(largest, size_))
      return ListedPositions{filled<ListedPositions::Position>(static_cast<Count>(largest) + 1), largest + 1};
    const Count capacity = capacity_for(size_);
    return HashedPositions{filled<Place>(capacity + 1), capacity};
  }

  /// The largest id; negative ones count as the largest of all.
  Word largest_id() const {
    using Unsigned = std::make_unsigned_t<Id>;
    const auto* const ids = reinterpret_cast<const Unsigned*>(ids_);
    auto* const largest = array<Unsigned>(1);
    std::size_t bytes = 0;
    cuda::check(cub::DeviceReduce::Max(nullptr, bytes, ids, largest, size_, stream()), "cub::DeviceReduce");
    cuda::check(cub::DeviceReduce::Max(workspace_.allocate(bytes), bytes, ids, largest, size_, stream()),
                "cub::DeviceReduce");
    return word_of(static_cast<Id>(value_of(largest)));
  }

  CUstream_st* stream() const { return workspace_.stream.get(); }

  template <typename T>
  T* array(Count size) const {
    return static_cast<T*>(workspace_.allocate(static_cast<std::size_t>(size) * sizeof(T)));
  }

  /// An array with all bits set.
  template <typename T>
  T* filled(Count size) const {
    T* const made = array<T>(size);
    cuda::fill_async(made, 0xFF, static_cast<std::size_t>(size) * sizeof(T), workspace_.stream);
    return made;
  }

  template <typename T>
  T value_of(const T* on_gpu) const {
    T value{};
    cuda::copy_async(&value, on_gpu, sizeof(T), workspace_.stream);
    workspace_.stream.synchronize();
    return value;
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
  Positions positions_;
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
