// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "strata/batches/batch.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"

namespace strata::batches {
namespace {

using Kind = PaddedArray::Kind;
using Bytes = std::vector<std::byte>;

constexpr Device kGpu{.kind = Device::Kind::cuda, .index = 0};

/// An array of a batch, and what it is padded to, in host memory.
struct HostArray {
  PaddedArray array;
  Count rows = 0, padded_rows = 0, item_bytes = 0;
  Bytes source;
};

class OnGpu : public testing::TestWithParam<Count> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  }

  Count below(Count most) { return static_cast<Count>(random_() % static_cast<std::uint64_t>(most)); }

  /// Ends are below `nodes`, all else is any bytes.
  void add(PaddedArray array, Count rows, Count padded_rows, Count item_bytes, Count nodes = 0) {
    HostArray host{array, rows, padded_rows, item_bytes, Bytes(at(rows * item_bytes))};
    for (std::byte& byte : host.source) byte = static_cast<std::byte>(below(256));
    for (Count i = 0; nodes > 0 && i < rows; ++i) {
      const Count end = below(nodes);
      std::memcpy(host.source.data() + i * item_bytes, &end, at(item_bytes));
    }
    arrays_.push_back(std::move(host));
  }

  void make_batch(Count seeds, Count cols) {
    rooms_ = {.nodes = {seeds, 5 * seeds, 11 * seeds}, .edges = {7 * seeds, 19 * seeds}, .spare = {2, 3, 5}};
    for (std::size_t hop = 0; hop < 3; ++hop)
      counts_.nodes.push_back(below(rooms_.nodes[hop] - rooms_.spare[hop] + 1));
    for (const Count room : rooms_.edges) counts_.edges.push_back(below(room + 1));
    const auto until = [](const std::vector<Count>& counts, std::size_t hop) {
      return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(hop) + 1, Count{0});
    };
    const Count nodes = until(counts_.nodes, 2), room = until(rooms_.nodes, 2);
    const Count edges = until(counts_.edges, 1), edge_room = until(rooms_.edges, 1);
    add({.kind = Kind::nodes, .row_bytes = 4 * cols}, nodes, room, 4 * cols);
    add({.kind = Kind::nodes, .row_bytes = 8}, nodes, room, 8);
    add({.kind = Kind::seeds, .row_bytes = 8, .fill = -100}, counts_.nodes[0], seeds, 8);
    add({.kind = Kind::seeds, .row_bytes = 4 * cols}, counts_.nodes[0], seeds, 4 * cols);
    add({.kind = Kind::seed_mask}, 0, seeds, 1);
    add({.kind = Kind::all_edges, .row_bytes = 8}, edges, edge_room, 8);
    if (nodes > 0) {
      add({.kind = Kind::all_sources}, edges, edge_room, 8, nodes);
      add({.kind = Kind::all_ends}, edges, edge_room, 8, nodes);
    }
    for (int hop = 0; hop < 2; ++hop) {
      const auto h = at(hop);
      const auto with_hop = [&](Kind kind, Count bytes = 0) {
        return PaddedArray{.kind = kind, .hop = hop, .row_bytes = bytes};
      };
      add(with_hop(Kind::edges, 8), counts_.edges[h], rooms_.edges[h], 8);
      add(with_hop(Kind::starts), until(counts_.nodes, h) + 1, until(rooms_.nodes, h) + 1, 8);
      add(with_hop(Kind::out_starts), until(counts_.nodes, h + 1) + 1, until(rooms_.nodes, h + 1) + 1, 8);
      if (nodes == 0) continue;
      add(with_hop(Kind::sources), counts_.edges[h], rooms_.edges[h], 4, nodes);
      add(with_hop(Kind::out_ends), counts_.edges[h], rooms_.edges[h], 4, nodes);
    }
  }

  /// The padded arrays, which are poisoned at first.
  std::vector<Bytes> padded_on(Device device) {
    const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
    std::vector<cuda::Buffer> from, to;
    std::vector<PaddedArray> arrays;
    std::vector<PaddingSource> sources;
    for (const HostArray& host : arrays_) {
      const auto bytes = at(host.padded_rows * host.item_bytes);
      from.emplace_back(cuda::memory_on(device), host.source.size() + 1, "a source", device);
      to.emplace_back(cuda::memory_on(device), bytes + 1, "an array", device);
      cuda::copy_async(from.back().data(), host.source.data(), host.source.size(), stream);
      cuda::fill_async(to.back().data(), 0xA5, bytes, stream);
      arrays.push_back(host.array);
      arrays.back().to = to.back().data();
      sources.push_back({.data = from.back().data(), .rows = host.rows});
    }
    BatchPadder(rooms_, arrays, device).pad(counts_, sources, stream, pool_);
    std::vector<Bytes> result;
    for (std::size_t i = 0; i < to.size(); ++i) {
      result.emplace_back(at(arrays_[i].padded_rows * arrays_[i].item_bytes));
      cuda::copy_async(result.back().data(), to[i].data(), result.back().size(), stream);
    }
    if (device.is_cuda()) stream.synchronize();
    return result;
  }

  std::mt19937_64 random_{7};
  ThreadPool pool_{2};
  PaddedRooms rooms_;
  HopCounts counts_;
  std::vector<HostArray> arrays_;
};

TEST_P(OnGpu, PadsAsTheCpu) {
  for (const Count seeds : {2, 8, 300, 3000}) {
    rooms_ = {}, counts_ = {};
    arrays_.clear();
    make_batch(seeds, GetParam());
    const std::vector<Bytes> expected = padded_on({}), found = padded_on(kGpu);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(found[i] == expected[i]) << "array " << i << " of " << seeds << " seeds";
  }
}

INSTANTIATE_TEST_SUITE_P(Columns, OnGpu, testing::Values(1, 2, 3, 100));

}  // namespace
}  // namespace strata::batches
