// SPDX-License-Identifier: Apache-2.0
#include "strata/sampling/one_hop.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/util/error.hpp"
#include "support/expect_error.hpp"

namespace strata::sampling {
namespace {

constexpr Device kGpu{.kind = Device::Kind::cuda, .index = 0};

/// Lists of up to 3000 neighbors, many of weight 0.
struct Lists {
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<float> weights;

  explicit Lists(unsigned seed) {
    std::mt19937 random(seed);
    for (const int most : {0, 1, 7, 31, 33, 64, 100, 256, 257, 3000}) {
      for (int repeat = 0; repeat < 20; ++repeat) {
        const unsigned degree = most == 0 ? 0 : random() % static_cast<unsigned>(most) + 1;
        for (unsigned j = 0; j < degree; ++j) {
          indices.push_back(static_cast<std::int32_t>(random() % 100000));
          weights.push_back(random() % 3 == 0 ? 0.0F : static_cast<float>(random() % 1000) / 7);
        }
        indptr.push_back(static_cast<std::int64_t>(indices.size()));
      }
    }
  }
};

/// Device memory for as long as a test.
class DeviceMemory {
 public:
  explicit DeviceMemory(const cuda::Stream& stream) : stream_(stream) {}
  void* allocate(std::size_t bytes) {
    blocks_.emplace_back(cuda::Memory::device, std::max<std::size_t>(bytes, 1), "a test", kGpu);
    cuda::fill_async(blocks_.back().data(), 0xEE, bytes, stream_);  // nothing may depend on what was there
    return blocks_.back().data();
  }
  template <typename T>
  T* copy(const std::vector<T>& values) {
    void* const data = allocate(values.size() * sizeof(T));
    cuda::copy_async(data, values.data(), values.size() * sizeof(T), stream_);
    return static_cast<T*>(data);
  }

 private:
  const cuda::Stream& stream_;
  std::vector<cuda::Buffer> blocks_;
};

struct Picked {
  std::vector<Count> starts;
  std::vector<std::int64_t> seeds;
  std::vector<std::int32_t> neighbors, with_seeds;
  bool operator==(const Picked&) const = default;
};

HopArrays arrays_of(const Lists& lists, const std::int64_t* indptr, const std::int32_t* indices,
                    const float* weights) {
  HopArrays arrays{.indptr = PiecedArray::of(indptr, std::ssize(lists.indptr), DType::i64),
                   .indices = PiecedArray::of(indices, std::ssize(lists.indices), DType::i32),
                   .weights = {}};
  if (weights != nullptr) arrays.weights = PiecedArray::of(weights, std::ssize(lists.weights), DType::f32);
  return arrays;
}

Picked on_cpu(const Lists& lists, bool weighted, const std::vector<std::int64_t>& seeds,
              const HopRule& rule) {
  ThreadPool pool(1);
  const auto hop = make_hop(
      arrays_of(lists, lists.indptr.data(), lists.indices.data(), weighted ? lists.weights.data() : nullptr),
      {.data = seeds.data(), .size = std::ssize(seeds), .wide = true}, rule,
      {.stream = {}, .allocate = {}, .pool = &pool});
  Picked picked;
  picked.seeds.resize(at(hop->num_edges()));
  picked.neighbors.resize(picked.seeds.size());
  hop->choose({.seeds = picked.seeds.data(), .neighbors = picked.neighbors.data()});
  picked.starts.resize(seeds.size() + 1);
  hop->starts(picked.starts.data());
  picked.with_seeds.resize(picked.neighbors.size() + seeds.size());
  hop->choose({.seeds = nullptr, .neighbors = picked.with_seeds.data(), .and_seeds = true});
  return picked;
}

Picked on_gpu(const Lists& lists, bool weighted, const std::vector<std::int64_t>& seeds,
              const HopRule& rule) {
  const cuda::Stream stream(kGpu);
  DeviceMemory memory(stream);
  const auto hop = make_hop(arrays_of(lists, memory.copy(lists.indptr), memory.copy(lists.indices),
                                      weighted ? memory.copy(lists.weights) : nullptr),
                            {.data = memory.copy(seeds), .size = std::ssize(seeds), .wide = true}, rule,
                            {.stream = cuda::Stream::borrow(kGpu, stream.get()),
                             .allocate = [&](std::size_t bytes) { return memory.allocate(bytes); },
                             .pool = nullptr});
  Picked picked;
  picked.seeds.resize(at(hop->num_edges()));
  picked.neighbors.resize(picked.seeds.size());
  auto* const rows = static_cast<std::int64_t*>(memory.allocate(picked.seeds.size() * 8));
  auto* const neighbors = static_cast<std::int32_t*>(memory.allocate(picked.seeds.size() * 4));
  hop->choose({.seeds = rows, .neighbors = neighbors});
  picked.starts.resize(seeds.size() + 1);
  auto* const starts = static_cast<Count*>(memory.allocate(picked.starts.size() * sizeof(Count)));
  hop->starts(starts);
  picked.with_seeds.resize(picked.neighbors.size() + seeds.size());
  auto* const with_seeds = static_cast<std::int32_t*>(memory.allocate(picked.with_seeds.size() * 4));
  hop->choose({.seeds = nullptr, .neighbors = with_seeds, .and_seeds = true});
  cuda::copy_async(picked.with_seeds.data(), with_seeds, picked.with_seeds.size() * 4, stream);
  cuda::copy_async(picked.starts.data(), starts, picked.starts.size() * sizeof(Count), stream);
  cuda::copy_async(picked.seeds.data(), rows, picked.seeds.size() * 8, stream);
  cuda::copy_async(picked.neighbors.data(), neighbors, picked.neighbors.size() * 4, stream);
  stream.synchronize();
  return picked;
}

class GpuOneHop : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "there is no GPU";
  }
};

TEST_F(GpuOneHop, ChoosesWhatTheCpuChooses) {
  const Lists lists(5);
  std::vector<std::int64_t> seeds;
  for (std::int64_t v = 0; v + 1 < std::ssize(lists.indptr); ++v) seeds.push_back(v);
  seeds.insert(seeds.end(), {3, 199, 3, 180});
  for (const bool weighted : {false, true}) {
    for (const Replacement replacement : {Replacement::without, Replacement::with}) {
      for (const Count fanout : {0, 1, 5, 32, 40, 300}) {
        const HopRule rule{.fanout = fanout, .replacement = replacement, .key = 77};
        EXPECT_EQ(on_gpu(lists, weighted, seeds, rule), on_cpu(lists, weighted, seeds, rule))
            << "weighted " << weighted << ", fanout " << fanout;
      }
    }
  }
  const HopRule all{.fanout = -1, .key = 1};
  EXPECT_EQ(on_gpu(lists, false, seeds, all), on_cpu(lists, false, seeds, all));
}

TEST_F(GpuOneHop, NamesASeedThatIsNoNode) {
  const Lists lists(6);
  EXPECT_THROW(on_gpu(lists, false, {0, 5, 200, 201}, {.fanout = 2}), std::out_of_range);
  EXPECT_EQ(on_gpu(lists, false, {}, {.fanout = 2}),
            (Picked{.starts = {0}, .seeds = {}, .neighbors = {}, .with_seeds = {}}));
}

TEST_F(GpuOneHop, NamesAWeightThatIsNone) {
  Lists lists(5);
  for (const std::size_t list : {25U, 130U, 185U}) {  // a warp's, a warp's in several rounds, a block's
    const auto first = at(lists.indptr[list]);
    const float before = lists.weights[first];
    const auto node = static_cast<std::int64_t>(list);
    for (const float wrong : {NAN, INFINITY, -1.0F}) {
      lists.weights[first] = wrong;
      for (const Replacement replacement : {Replacement::without, Replacement::with}) {
        const HopRule rule{.fanout = 3, .replacement = replacement, .key = 3};
        test::expect_error<InputError>(
            [&] {
              on_gpu(lists, true, {199, node, 0}, rule);
            },
            {"probability of index " + std::to_string(first) + " is negative"});
        EXPECT_EQ(on_gpu(lists, true, {199, 0}, rule), on_cpu(lists, true, {199, 0}, rule));
      }
    }
    lists.weights[first] = before;
  }
}

}  // namespace
}  // namespace strata::sampling
