// SPDX-License-Identifier: Apache-2.0
#include "generate/generate_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"

namespace strata::store {
namespace {

const Device kDevice{Device::Kind::cuda, 0};

struct ListCase {
  NodeId num_nodes, first_node;
  std::vector<Count> sizes;
  bool drop_self_loops, drop_duplicates, wide;
};

struct Lists {
  std::vector<Count> kept;
  std::vector<NodeId> entries;
  bool operator==(const Lists&) const = default;
};

const graph::KeyedWords kWords(5, graph::Purpose::edge);
constexpr Count kFirstEntry = 1'000'000'007;

std::vector<Count> offsets_of(const std::vector<Count>& sizes, Count first) {
  std::vector<Count> offsets{first};
  for (const Count size : sizes) offsets.push_back(offsets.back() + size);
  return offsets;
}

/// The generator's recurrence, entry by entry.
Lists expected_lists(const ListCase& c) {
  Lists lists;
  Count first = kFirstEntry;
  for (std::size_t i = 0; i < c.sizes.size(); ++i) {
    const graph::SkewedList list(kWords, c.num_nodes, first, c.sizes[i]);
    NodeId previous = -1;
    Count kept = 0;
    for (Count entry = 0; entry < c.sizes[i]; ++entry) {
      const NodeId neighbor = std::min(std::max(previous + 1, list.requested(entry)), c.num_nodes - 1);
      const bool again = neighbor == previous, loop = neighbor == c.first_node + static_cast<NodeId>(i);
      previous = neighbor;
      if ((again && c.drop_duplicates) || (loop && c.drop_self_loops)) continue;
      lists.entries.push_back(neighbor);
      ++kept;
    }
    lists.kept.push_back(kept);
    first += c.sizes[i];
  }
  return lists;
}

template <typename T>
cuda::Array<T> to_gpu(const std::vector<T>& values, const cuda::Stream& stream) {
  cuda::Array<T> array(cuda::Memory::device, std::ssize(values), "test", kDevice);
  cuda::copy_async(array.data(), values.data(), values.size() * sizeof(T), stream);
  return array;
}

template <typename T>
std::vector<T> from_gpu(const cuda::Array<T>& array, const cuda::Stream& stream) {
  std::vector<T> values(at(array.size()));
  cuda::copy_async(values.data(), array.data(), values.size() * sizeof(T), stream);
  stream.synchronize();
  return values;
}

template <typename Id>
std::vector<NodeId> written_lists(const ListTask& task, const std::vector<Count>& kept,
                                  const cuda::Stream& stream) {
  const std::vector<Count> begins = offsets_of(kept, 77);
  const Count entries = begins.back() - begins.front();
  const auto begins_there = to_gpu(begins, stream);
  const cuda::Array<Id> out(cuda::Memory::device, entries + 1, "test", kDevice);
  cuda::fill_async(out.data(), 0xFB, at(entries + 1) * sizeof(Id), stream);
  write_lists(task, {.begins = begins_there.data(), .out = out.data(), .wide = sizeof(Id) == 8}, stream);
  std::vector<Id> ids = from_gpu(out, stream);
  EXPECT_EQ(ids.back(), static_cast<Id>(0xFBFBFBFBFBFBFBFB)) << "wrote behind the last list";
  ids.pop_back();
  return {ids.begin(), ids.end()};
}

Lists lists_on_gpu(const ListCase& c) {
  const cuda::DeviceGuard guard(kDevice);
  const cuda::Stream stream(kDevice);
  const auto offsets = to_gpu(offsets_of(c.sizes, kFirstEntry), stream);
  const ListTask task{.words = kWords,
                      .num_nodes = c.num_nodes,
                      .first_node = c.first_node,
                      .num_lists = std::ssize(c.sizes),
                      .offsets = offsets.data(),
                      .drop_self_loops = c.drop_self_loops,
                      .drop_duplicates = c.drop_duplicates};
  const auto dropped = to_gpu(std::vector<Count>{40}, stream);
  const auto kept = to_gpu(std::vector<Count>(c.sizes.size(), -1), stream);
  count_entries(task, dropped.data(), kept.data(), stream);
  Lists lists{.kept = from_gpu(kept, stream), .entries = {}};
  const Count all = std::accumulate(c.sizes.begin(), c.sizes.end(), Count{0});
  const Count stay = std::accumulate(lists.kept.begin(), lists.kept.end(), Count{0});
  EXPECT_EQ(from_gpu(dropped, stream), std::vector<Count>{40 + all - stay});
  lists.entries = c.wide ? written_lists<std::int64_t>(task, lists.kept, stream)
                         : written_lists<std::int32_t>(task, lists.kept, stream);
  return lists;
}

/// Sizes from 0 to beyond the number of nodes, where lists are cut off and repeat the last node.
std::vector<Count> random_sizes(Count count, NodeId num_nodes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Count> sizes;
  for (Count i = 0; i < count; ++i)
    sizes.push_back(static_cast<Count>(random() % static_cast<std::uint64_t>(2 * num_nodes)));
  for (const Count size : {0, 1, 31, 32, 33, 64, 65, 1000}) sizes.push_back(size);
  return sizes;
}

TEST(GenerateKernels, MakeListsAsTheGeneratorDoes) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  std::uint64_t seed = 0;
  for (const NodeId num_nodes : {1, 2, 31, 100, 700}) {
    for (const bool drop_self_loops : {false, true}) {
      for (const bool drop_duplicates : {false, true}) {
        for (const bool wide : {false, true}) {
          const ListCase c{num_nodes,       num_nodes / 2,   random_sizes(300, num_nodes, ++seed),
                           drop_self_loops, drop_duplicates, wide};
          EXPECT_TRUE(lists_on_gpu(c) == expected_lists(c))
              << num_nodes << " nodes, drop self-loops " << drop_self_loops << ", duplicates "
              << drop_duplicates << ", wide " << wide << ", seed " << seed;
        }
      }
    }
  }
}

TEST(GenerateKernels, MakeMoreListsThanThereAreWarps) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  const ListCase c{3'000'000, 100, random_sizes(100'000, 10, 99), true, true, false};
  EXPECT_TRUE(lists_on_gpu(c) == expected_lists(c));
}

}  // namespace
}  // namespace strata::store
