// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "strata/batches/fetcher.hpp"
#include "strata/cuda/buffer.hpp"
#include "strata/cuda/device.hpp"
#include "strata/cuda/stream.hpp"
#include "support/random_dataset.hpp"
#include "support/run_setup.hpp"

namespace strata::test {

/// A table over all machines of a run: machine m has the rows [offsets[m], offsets[m + 1]) of `values`.
struct DistributedTable {
  struct Options {
    Count rows = 1000, cols = 7;
    DType dtype = DType::f32;
    std::uint64_t seed = 1;
    double on_gpu = 0;  ///< fraction of a machine's rows that is replicated on its GPUs
    bool fine = false;  ///< f32 or f16 values that bf16 does not hold
    RowCode::Kind code = RowCode::Kind::none;  ///< in which rows of f32 are stored: i8 or i4
    Count kept = 0;     ///< of the nodes of other machines, every so many is kept in the halo; 0: none
    NodeId lowest = 0;  ///< the id of the first row
  };

  DistributedTable(const RunSetup& run, const Options& options)
      : cols(options.cols),
        lowest(options.lowest),
        offsets(random_offsets(run, options)),
        all_(values_of(options)),
        kept_(kept_nodes(run, options)),
        halo(kept_, options.lowest + options.rows),
        tensor(make(run, options)) {}

  NodeId first(const RunSetup& run) const { return offsets[at(run.machine.index())]; }

  std::vector<float> expected(const std::vector<NodeId>& ids) const {
    std::vector<float> rows(ids.size() * at(cols), 0.0f);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == -1) continue;
      std::copy_n(all_.floats.begin() + (ids[i] - lowest) * cols, cols,
                  rows.begin() + static_cast<std::ptrdiff_t>(i) * cols);
    }
    return rows;
  }

  /// What a fetch on this machine gives if rows cross machines in bf16: those that are not kept here are
  /// rounded.
  std::vector<float> expected_in_bf16(const RunSetup& run, const std::vector<NodeId>& ids) const {
    const auto machine = at(run.machine.index());
    std::vector<float> rows = expected(ids);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const NodeId id = ids[i / at(cols)];
      const bool own = id >= offsets[machine] && id < offsets[machine + 1];
      if (!own && halo.find(id) < 0) rows[i] = bf16_to_f32(f32_to_bf16(rows[i]));
    }
    return rows;
  }

  Count cols;
  NodeId lowest;
  std::vector<NodeId> offsets;

 private:
  static RandomValues values_of(const Options& options) {
    RandomValues values = random_values(options.rows * options.cols, options.dtype, options.seed);
    if (const RowCode code = code_of(options)) encode(code, values);
    if (!options.fine) return values;
    constexpr float kFine = 1.001f;
    std::byte* stored = values.bytes.data();
    for (float& value : values.floats) {
      value *= kFine;
      const std::uint16_t half = f32_to_f16(value);
      if (options.dtype == DType::f16) value = f16_to_f32(half);
      std::memcpy(stored, options.dtype == DType::f16 ? static_cast<const void*>(&half) : &value,
                  size_of(options.dtype));
      stored += size_of(options.dtype);
    }
    return values;
  }

  static RowCode code_of(const Options& options) { return {.kind = options.code, .cols = options.cols}; }

  /// Replaces the bytes by codes, and the floats by what these mean.
  static void encode(const RowCode& code, RandomValues& values) {
    const Count rows = std::ssize(values.floats) / code.cols;
    values.bytes.resize(at(rows * code.row_bytes()));
    for (Count row = 0; row < rows; ++row) {
      code.encode(values.floats.data() + row * code.cols, values.bytes.data() + row * code.row_bytes());
      code.decode(values.bytes.data() + row * code.row_bytes(), values.floats.data() + row * code.cols);
    }
  }

  RandomValues all_;
  std::vector<NodeId> kept_;

  static std::vector<NodeId> random_offsets(const RunSetup& run, const Options& options) {
    std::mt19937_64 random(options.seed);
    std::vector<NodeId> offsets{options.lowest};
    for (int m = 1; m < run.topology.num_machines(); ++m) {
      offsets.push_back(options.lowest +
                        static_cast<NodeId>(random() % static_cast<std::uint64_t>(options.rows + 1)));
    }
    offsets.push_back(options.lowest + options.rows);
    std::ranges::sort(offsets);
    return offsets;
  }

  tensor::ChunkTensor make(const RunSetup& run, const Options& options) const {
    const auto machine = at(run.machine.index());
    const Count own = offsets[machine + 1] - offsets[machine], rows = own + std::ssize(kept_);
    const Count on_gpu = static_cast<Count>(std::floor(options.on_gpu * static_cast<double>(rows)));
    tensor::ChunkTensor made = tensor::ChunkTensor::create(
        run.machine,
        {.name = "table",
         .rows = rows,
         .cols = cols,
         .dtype = code_of(options) ? DType::u8 : options.dtype,
         .code = code_of(options)},
        {.segments = {{{tensor::Stratum::replicated, on_gpu}, {tensor::Stratum::host, rows - on_gpu}}}});
    const auto row_of = [&](NodeId id) {
      return all_.bytes.data() + at(id - lowest) * made.spec().row_bytes();
    };
    made.write_rows(0, own, row_of(offsets[machine]));
    for (std::size_t kept = 0; kept < kept_.size(); ++kept)
      made.write_rows(own + static_cast<Count>(kept), 1, row_of(kept_[kept]));
    run.machine.barrier();
    return made;
  }

  /// Nodes of other machines, in random order.
  std::vector<NodeId> kept_nodes(const RunSetup& run, const Options& options) const {
    std::vector<NodeId> nodes;
    if (options.kept == 0) return nodes;
    const auto machine = at(run.machine.index());
    for (NodeId node = options.lowest; node < options.lowest + options.rows; node += options.kept)
      if (node < offsets[machine] || node >= offsets[machine + 1]) nodes.push_back(node);
    std::mt19937_64 random(options.seed);
    std::ranges::shuffle(nodes, random);
    return nodes;
  }

 public:
  store::NodeIndex halo;       ///< of the nodes whose rows follow the machine's own
  tensor::ChunkTensor tensor;  // last: made of the others
};

/// What a fetch is told of the order of its ids.
enum class IdOrder { unknown, given };

/// A fetch into a poisoned buffer on `device`.
inline std::vector<float> fetched(batches::RowFetcher& fetcher, Device device, const std::vector<NodeId>& ids,
                                  Count cols, IdOrder order = IdOrder::unknown) {
  const cuda::DeviceGuard guard(device);
  const cuda::Stream stream = device.is_cuda() ? cuda::Stream(device) : cuda::Stream();
  const auto there = [&]<typename T>(const std::vector<T>& values) {
    cuda::Array<T> copy(cuda::memory_on(device), std::ssize(values) + 1, "ids", device);
    cuda::copy_async(copy.data(), values.data(), values.size() * sizeof(T), stream);
    return copy;
  };
  std::vector<std::int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::ranges::stable_sort(positions, {}, [&](std::int32_t i) { return ids[at(i)]; });
  std::vector<NodeId> sorted = ids;
  std::ranges::sort(sorted);
  const auto ids_there = there(ids), sorted_there = there(sorted);
  const auto positions_there = there(positions);
  const bool given = order == IdOrder::given;
  const cuda::Array<float> out(cuda::memory_on(device), std::ssize(ids) * cols + 1, "out", device);
  cuda::fill_async(out.data(), 0xFB, at(out.size()) * sizeof(float), stream);
  fetcher.fetch({.ids = ids_there.data(),
                 .count = std::ssize(ids),
                 .sorted = given ? sorted_there.data() : nullptr,
                 .sorted_positions = given ? positions_there.data() : nullptr},
                out.data(), stream);
  std::vector<float> rows(ids.size() * at(cols));
  cuda::copy_async(rows.data(), out.data(), rows.size() * sizeof(float), stream);
  stream.synchronize();
  return rows;
}

/// `count` distinct ids of a table, or as many as it has, in random order, and some -1 among them.
inline std::vector<NodeId> distinct_ids(Count count, Count rows, std::uint64_t seed, NodeId lowest = 0) {
  std::mt19937_64 random(seed);
  std::vector<NodeId> ids(at(rows));
  std::iota(ids.begin(), ids.end(), lowest);
  std::ranges::shuffle(ids, random);
  ids.resize(at(std::min(count, rows)));
  for (Count i = 0; i < count / 10; ++i) {
    ids.insert(ids.begin() + static_cast<std::ptrdiff_t>(random() % (ids.size() + 1)), -1);
  }
  return ids;
}

}  // namespace strata::test
