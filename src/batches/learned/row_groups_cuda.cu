// SPDX-License-Identifier: Apache-2.0
#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "learned/row_groups.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/kernels.cuh"

namespace strata::batches {
namespace {

using cuda::blocks_for;
using cuda::first_item;
using cuda::item_stride;
using cuda::kThreads;
using Terms = GradientSums::Terms;

/// Elements that a thread moves at once.
template <int kSize>
struct Word {
  float of[kSize];
};

template <int kSize>
__device__ Word<kSize> load(const float* row, unsigned word) {
  if constexpr (kSize == 4) {
    const float4 value = reinterpret_cast<const float4*>(row)[word];
    return {{value.x, value.y, value.z, value.w}};
  } else {
    return {{row[word]}};
  }
}

template <int kSize>
__device__ void store(float* row, unsigned word, const Word<kSize>& value) {
  if constexpr (kSize == 4)
    reinterpret_cast<float4*>(row)[word] = make_float4(value.of[0], value.of[1], value.of[2], value.of[3]);
  else
    row[word] = value.of[0];
}

/// The same word of all terms, added in their order.
template <int kSize>
__device__ Word<kSize> add_terms(const GradientSums& sums, const Terms& terms, unsigned word) {
  Word<kSize> sum = load<kSize>(sums.term(terms, 0), word);
#pragma unroll 8
  for (Count k = 1; k < terms.count; ++k) {
    const Word<kSize> value = load<kSize>(sums.term(terms, k), word);
#pragma unroll
    for (int i = 0; i < kSize; ++i) sum.of[i] = ieee::sum(sum.of[i], value.of[i]);
  }
  return sum;
}

/// Threads that work on a row together: a power of 2, so that a warp has whole teams.
struct Teams {
  unsigned words = 0;  ///< per row
  int shift = 0;       ///< log2 of a team's threads

  __device__ unsigned lane() const { return threadIdx.x & ((1u << shift) - 1u); }
  __device__ unsigned mask() const {  ///< of the team among its warp
    const unsigned threads = 1u << shift,
                   own = threads == cuda::kWarp ? cuda::kAllLanes : (1u << threads) - 1u;
    return own << (threadIdx.x % cuda::kWarp / threads * threads);
  }
  __device__ Count first() const { return first_item<Count>() >> shift; }
  __device__ Count stride() const { return item_stride<Count>() >> shift; }

  static Teams of(Count words) {
    const auto all = static_cast<unsigned>(words);
    return {all, std::countr_zero(std::bit_ceil(std::min(all, 32u)))};
  }
  /// A team per row: rows wait for memory, so that all the warps that fit are wanted.
  unsigned blocks_for_rows(Count rows) const {
    constexpr Count kMaxBlocks = Count{1} << 30;
    return static_cast<unsigned>(
        std::clamp<Count>(((rows << shift) + kThreads - 1) / kThreads, 1, kMaxBlocks));
  }
};

__global__ void map_ids(const NodeId* ids, Count count, DealtRows dealt, NodeId* rows) {
  for (Count i = first_item<Count>(); i < count; i += item_stride<Count>()) rows[i] = dealt.row_of(ids[i]);
}

__global__ void make_keys(const NodeId* rows, Count count, NodeId end, NodeId* keys,
                          std::int32_t* positions) {
  for (Count i = first_item<Count>(); i < count; i += item_stride<Count>()) {
    keys[i] = rows[i] < 0 || rows[i] >= end ? end : rows[i];
    positions[i] = static_cast<std::int32_t>(i);
  }
}

template <int kSize>
__global__ void __launch_bounds__(kThreads) add_parts(GradientSums sums, int level, Count rows, Teams teams) {
  for (Count row = teams.first(); row < rows; row += teams.stride()) {
    const Terms terms = sums.terms_of_part(level, row);
    if (terms.count == 0) continue;
    for (unsigned word = teams.lane(); word < teams.words; word += 1u << teams.shift)
      store(sums.parts[level] + row * sums.cols, word, add_terms<kSize>(sums, terms, word));
  }
}

/// The sum over a team of what its threads have, in an order that follows from its size.
__device__ double sum_over_team(double value, const Teams& teams) {
  for (unsigned distance = (1u << teams.shift) / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(teams.mask(), value, static_cast<int>(distance));
  return value;
}

template <int kSize>
__device__ double square_of_row(const GradientSums& sums, const Terms& terms, const RowStep& step,
                                const Teams& teams) {
  double square = 0;
  for (unsigned word = teams.lane(); word < teams.words; word += 1u << teams.shift) {
    const Word<kSize> gradient = add_terms<kSize>(sums, terms, word);
    for (int i = 0; i < kSize; ++i) {
      const auto value = static_cast<double>(step.scaled(gradient.of[i]));
      square += value * value;
    }
  }
  return sum_over_team(square, teams);
}

// A team per entry of the sorted list; those that begin a group update its row. 300,000 rows of 128 columns
// move 154 MB of gradients, and read and write as much of the weights and of each state.
template <RowOptimizer kOptimizer, int kSize>
__global__ void __launch_bounds__(kThreads)
    update_rows(GradientSums sums, OwnRows rows, RowStep step, Teams teams) {
  constexpr bool kHasFirst = kOptimizer == RowOptimizer::adagrad || kOptimizer == RowOptimizer::adam;
  constexpr bool kHasSecond = kOptimizer == RowOptimizer::adam;
  for (Count i = teams.first(); i < sums.groups.count; i += teams.stride()) {
    if (!sums.groups.begins_at(i)) continue;
    const Terms terms = sums.terms_of(i, sums.groups.end_of(i));
    const Count row = sums.groups.rows[i] - rows.first;
    float row_root = 1;
    if constexpr (kOptimizer == RowOptimizer::rowwise_adagrad) {
      const double square = square_of_row<kSize>(sums, terms, step, teams);
      float state = rows.state[0][row];
      row_root = step.add_square(state, square, rows.cols);
      __syncwarp(teams.mask());
      if (teams.lane() == 0) rows.state[0][row] = state;
    }
    const Count offset = row * rows.cols;
    for (unsigned word = teams.lane(); word < teams.words; word += 1u << teams.shift) {
      Word<kSize> weight = load<kSize>(rows.weights + offset, word), first{}, second{};
      if constexpr (kHasFirst) first = load<kSize>(rows.state[0] + offset, word);
      if constexpr (kHasSecond) second = load<kSize>(rows.state[1] + offset, word);
      const Word<kSize> gradient = add_terms<kSize>(sums, terms, word);
#pragma unroll
      for (int k = 0; k < kSize; ++k)
        step.apply<kOptimizer>(weight.of[k], first.of[k], second.of[k], step.scaled(gradient.of[k]),
                               row_root);
      store(rows.weights + offset, word, weight);
      if constexpr (kHasFirst) store(rows.state[0] + offset, word, first);
      if constexpr (kHasSecond) store(rows.state[1] + offset, word, second);
    }
  }
}

struct BeginsGroup {
  RowGroups groups;
  __device__ bool operator()(std::int32_t i) const { return groups.begins_at(i); }
};

/// The groups that a selection found.
struct Begins {
  const std::int32_t* of_group;  ///< entries
  const std::int32_t* count;
};

template <int kSize>
__global__ void __launch_bounds__(kThreads)
    list_group_sums(GradientSums sums, Begins begins, Teams teams, NodeId* rows, float* values) {
  for (Count g = teams.first(); g < *begins.count; g += teams.stride()) {
    const Count i = begins.of_group[g];
    const Terms terms = sums.terms_of(i, sums.groups.end_of(i));
    if (teams.lane() == 0) rows[g] = sums.groups.rows[i];
    for (unsigned word = teams.lane(); word < teams.words; word += 1u << teams.shift)
      store(values + g * sums.cols, word, add_terms<kSize>(sums, terms, word));
  }
}

template <int kBytes>
__global__ void __launch_bounds__(kThreads)
    list_group_ends(RowGroups groups, Begins begins, Teams teams, const std::byte* in, NodeId* rows,
                    std::byte* values) {
  using Bits = typename cuda::Word<kBytes>::Type;
  const Count row_bytes = Count{teams.words} * kBytes;
  for (Count g = teams.first(); g < *begins.count; g += teams.stride()) {
    const Count i = begins.of_group[g], from = groups.order[groups.end_of(i) - 1];
    if (teams.lane() == 0) rows[g] = groups.rows[i];
    const auto* const source = reinterpret_cast<const Bits*>(in + from * row_bytes);
    auto* const target = reinterpret_cast<Bits*>(values + g * row_bytes);
    for (unsigned word = teams.lane(); word < teams.words; word += 1u << teams.shift)
      target[word] = source[word];
  }
}

/// offsets[b] = groups whose row is below bounds[b].
__global__ void find_offsets(RowGroups groups, Begins begins, const NodeId* bounds, Count num_bounds,
                             Count* offsets) {
  for (Count b = first_item<Count>(); b < num_bounds; b += item_stride<Count>()) {
    Count low = 0, high = *begins.count;
    while (low < high) {
      const Count middle = low + (high - low) / 2;
      if (groups.rows[begins.of_group[middle]] < bounds[b])
        low = middle + 1;
      else
        high = middle;
    }
    offsets[b] = low;
  }
}

bool fits_words(Count cols, std::initializer_list<const void*> arrays) {
  std::uint64_t all = static_cast<std::uint64_t>(cols) * sizeof(float);
  for (const void* array : arrays) all |= reinterpret_cast<std::uintptr_t>(array);
  return all % sizeof(float4) == 0;
}

/// Calls launch(integral_constant of the word's size, teams).
template <typename Launch>
void with_words(Count cols, std::initializer_list<const void*> arrays, Launch launch) {
  if (fits_words(cols, arrays)) return launch(std::integral_constant<int, 4>(), Teams::of(cols / 4));
  launch(std::integral_constant<int, 1>(), Teams::of(cols));
}

class GpuGrouper final : public RowGrouper {
 public:
  explicit GpuGrouper(Device device)
      : device_(device), num_begins_(cuda::Memory::device, 1, "groups of rows", device) {}

  void map(const NodeId* ids, Count count, const DealtRows& dealt, NodeId* rows,
           const cuda::Stream& stream) override {
    if (count == 0) return;
    map_ids<<<blocks_for(count), kThreads, 0, stream.get()>>>(ids, count, dealt, rows);
    cuda::check_launch("map_ids");
  }

  RowGroups group(const NodeId* rows, Count count, NodeId end, const cuda::Stream& stream) override {
    for (int i = 0; i < 2; ++i) {
      room(keys_[i], count);
      room(positions_[i], count);
    }
    if (count == 0) return {nullptr, nullptr, 0, end};
    make_keys<<<blocks_for(count), kThreads, 0, stream.get()>>>(rows, count, end, keys_[0].data(),
                                                                positions_[0].data());
    cuda::check_launch("make_keys");
    cub::DoubleBuffer<NodeId> keys(keys_[0].data(), keys_[1].data());
    cub::DoubleBuffer<std::int32_t> positions(positions_[0].data(), positions_[1].data());
    const int bits = std::bit_width(static_cast<std::uint64_t>(end));
    with_temporary("cub::DeviceRadixSort", [&](void* memory, std::size_t& bytes) {
      return cub::DeviceRadixSort::SortPairs(memory, bytes, keys, positions, count, 0, bits, stream.get());
    });
    return {keys.Current(), positions.Current(), count, end};
  }

  GradientSums sum(const RowGroups& groups, const float* gradients, Count cols,
                   const cuda::Stream& stream) override {
    GradientSums sums{.groups = groups, .gradients = gradients, .cols = cols};
    for (int level = 1; level <= GradientSums::kLevels; ++level) {
      const Count rows = groups.count >> GradientSums::shift(level);
      sums.parts[at(level)] = room(parts_[at(level)], rows * cols);
      if (rows == 0 || cols == 0) continue;
      with_words(cols, {gradients}, [&](auto size, const Teams& teams) {
        add_parts<size><<<teams.blocks_for_rows(rows), kThreads, 0, stream.get()>>>(sums, level, rows, teams);
      });
      cuda::check_launch("add_parts");
    }
    return sums;
  }

  void update(const GradientSums& sums, const OwnRows& rows, RowOptimizer optimizer, const RowStep& step,
              const cuda::Stream& stream) override {
    switch (optimizer) {
      case RowOptimizer::sgd:
        return launch_update<RowOptimizer::sgd>(sums, rows, step, stream);
      case RowOptimizer::rowwise_adagrad:
        return launch_update<RowOptimizer::rowwise_adagrad>(sums, rows, step, stream);
      case RowOptimizer::adagrad:
        return launch_update<RowOptimizer::adagrad>(sums, rows, step, stream);
      case RowOptimizer::adam:
        return launch_update<RowOptimizer::adam>(sums, rows, step, stream);
    }
  }

  ListedRows list_sums(const GradientSums& sums, std::span<const NodeId> bounds,
                       const cuda::Stream& stream) override {
    const Count row_bytes = sums.cols * static_cast<Count>(sizeof(float));
    return list(sums.groups, row_bytes, bounds, stream, [&](const Begins& begins) {
      with_words(sums.cols, {sums.gradients}, [&](auto size, const Teams& teams) {
        list_group_sums<size><<<teams.blocks_for_rows(sums.groups.count), kThreads, 0, stream.get()>>>(
            sums, begins, teams, listed_rows_.data(), reinterpret_cast<float*>(listed_values_.data()));
      });
    });
  }

  ListedRows list_last(const RowGroups& groups, const std::byte* values, Count row_bytes,
                       std::span<const NodeId> bounds, const cuda::Stream& stream) override {
    return list(groups, row_bytes, bounds, stream, [&](const Begins& begins) {
      const auto launch = [&](auto bytes) {
        const Teams teams = Teams::of(row_bytes / bytes);
        list_group_ends<bytes><<<teams.blocks_for_rows(groups.count), kThreads, 0, stream.get()>>>(
            groups, begins, teams, values, listed_rows_.data(), listed_values_.data());
      };
      const std::uint64_t all =
          static_cast<std::uint64_t>(row_bytes) | reinterpret_cast<std::uintptr_t>(values);
      if (all % 16 == 0) return launch(std::integral_constant<int, 16>());
      if (all % 4 == 0) return launch(std::integral_constant<int, 4>());
      launch(std::integral_constant<int, 1>());
    });
  }

 private:
  template <typename T>
  T* room(cuda::Array<T>& array, Count size) {
    return array.reserve(cuda::Memory::device, size, "groups of rows", device_);
  }

  /// Calls a function of cub with the memory that it asks for.
  template <typename Call>
  void with_temporary(const char* name, Call call) {
    std::size_t bytes = 0;
    cuda::check(call(nullptr, bytes), name);
    std::byte* const memory = room(temporary_, static_cast<Count>(std::max<std::size_t>(bytes, 1)));
    cuda::check(call(memory, bytes), name);
  }

  template <RowOptimizer kOptimizer>
  void launch_update(const GradientSums& sums, const OwnRows& rows, const RowStep& step,
                     const cuda::Stream& stream) {
    if (sums.groups.count == 0 || sums.cols == 0) return;
    const std::initializer_list<const void*> arrays{sums.gradients, rows.weights, rows.state[0],
                                                    rows.state[1]};
    with_words(sums.cols,
               kOptimizer == RowOptimizer::rowwise_adagrad
                   ? std::initializer_list<const void*>{sums.gradients, rows.weights}
                   : arrays,
               [&](auto size, const Teams& teams) {
                 update_rows<kOptimizer, size>
                     <<<teams.blocks_for_rows(sums.groups.count), kThreads, 0, stream.get()>>>(sums, rows,
                                                                                               step, teams);
               });
    cuda::check_launch("update_rows");
  }

  template <typename Fill>
  ListedRows list(const RowGroups& groups, Count row_bytes, std::span<const NodeId> bounds,
                  const cuda::Stream& stream, Fill fill) {
    ListedRows listed{room(listed_rows_, groups.count), room(listed_values_, groups.count * row_bytes),
                      row_bytes, std::vector<Count>(bounds.size())};
    if (groups.count == 0) return listed;
    room(begins_, groups.count);
    with_temporary("cub::DeviceSelect", [&](void* memory, std::size_t& bytes) {
      return cub::DeviceSelect::If(memory, bytes, thrust::counting_iterator<std::int32_t>(0), begins_.data(),
                                   num_begins_.data(), static_cast<std::int32_t>(groups.count),
                                   BeginsGroup{groups}, stream.get());
    });
    const Begins begins{begins_.data(), num_begins_.data()};
    if (row_bytes > 0) fill(begins);
    cuda::check_launch("list_groups");
    room(bounds_, std::ssize(bounds));
    room(offsets_, std::ssize(bounds));
    cuda::copy_async(bounds_.data(), bounds.data(), bounds.size_bytes(), stream);
    find_offsets<<<1, kThreads, 0, stream.get()>>>(groups, begins, bounds_.data(), std::ssize(bounds),
                                                   offsets_.data());
    cuda::check_launch("find_offsets");
    cuda::copy_async(listed.offsets.data(), offsets_.data(), bounds.size_bytes(), stream);
    stream.synchronize();
    return listed;
  }

  Device device_;
  std::array<cuda::Array<NodeId>, 2> keys_;  // this and all below: device memory
  std::array<cuda::Array<std::int32_t>, 2> positions_;
  cuda::Array<std::byte> temporary_;
  std::array<cuda::Array<float>, GradientSums::kLevels + 1> parts_;
  cuda::Array<std::int32_t> begins_, num_begins_;
  cuda::Array<NodeId> listed_rows_, bounds_;
  cuda::Array<std::byte> listed_values_;
  cuda::Array<Count> offsets_;
};

}  // namespace

std::unique_ptr<RowGrouper> make_row_grouper_on_gpu(Device device) {
  return std::make_unique<GpuGrouper>(device);
}

}  // namespace strata::batches
