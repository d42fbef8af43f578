// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include "learned/row_groups.hpp"
#include "strata/cuda/buffer.hpp"

namespace strata::batches {
namespace {

constexpr Count kGrain = 256;  // rows per piece

/// out = the sum of the terms' rows.
void add_terms(const GradientSums& sums, const GradientSums::Terms& terms, float* out) {
  std::copy_n(sums.term(terms, 0), sums.cols, out);
  for (Count k = 1; k < terms.count; ++k) {
    const float* const row = sums.term(terms, k);
    for (Count col = 0; col < sums.cols; ++col) out[col] = ieee::sum(out[col], row[col]);
  }
}

template <RowOptimizer kOptimizer>
void update_row(const OwnRows& rows, const RowStep& step, Count row, const float* gradient) {
  float* const weight = rows.weights + row * rows.cols;
  float row_root = 1, unused = 0;
  if constexpr (kOptimizer == RowOptimizer::rowwise_adagrad) {
    double square = 0;
    for (Count col = 0; col < rows.cols; ++col) {
      const auto value = static_cast<double>(step.scaled(gradient[col]));
      square += value * value;
    }
    row_root = step.add_square(rows.state[0][row], square, rows.cols);
  }
  constexpr bool kHasFirst = kOptimizer == RowOptimizer::adagrad || kOptimizer == RowOptimizer::adam;
  for (Count col = 0; col < rows.cols; ++col) {
    const Count i = row * rows.cols + col;
    float& first = kHasFirst ? rows.state[0][i] : unused;
    float& second = kOptimizer == RowOptimizer::adam ? rows.state[1][i] : unused;
    step.apply<kOptimizer>(weight[col], first, second, step.scaled(gradient[col]), row_root);
  }
}

class CpuGrouper final : public RowGrouper {
 public:
  explicit CpuGrouper(ThreadPool& pool) : pool_(pool) {}

  void map(const NodeId* ids, Count count, const DealtRows& dealt, NodeId* rows,
           const cuda::Stream& /*stream*/) override {
    pool_.parallel_for(count, kGrain * 16, [&](Count begin, Count end) {
      for (Count i = begin; i < end; ++i) rows[i] = dealt.row_of(ids[i]);
    });
  }

  RowGroups group(const NodeId* rows, Count count, NodeId end, const cuda::Stream& /*stream*/) override {
    entries_.resize(at(count));
    rows_.resize(at(count));
    order_.resize(at(count));
    for (std::int32_t i = 0; i < count; ++i)
      entries_[at(i)] = {rows[i] < 0 || rows[i] >= end ? end : rows[i], i};
    std::ranges::sort(entries_);
    std::ranges::transform(entries_, rows_.begin(), &std::pair<NodeId, std::int32_t>::first);
    std::ranges::transform(entries_, order_.begin(), &std::pair<NodeId, std::int32_t>::second);
    begins_.clear();
    const RowGroups groups{rows_.data(), order_.data(), count, end};
    for (Count i = 0; i < count; i = groups.end_of(i))
      if (groups.begins_at(i)) begins_.push_back(i);
    return groups;
  }

  GradientSums sum(const RowGroups& groups, const float* gradients, Count cols,
                   const cuda::Stream& /*stream*/) override {
    GradientSums sums{.groups = groups, .gradients = gradients, .cols = cols};
    for (int level = 1; level <= GradientSums::kLevels; ++level) {
      const Count rows = groups.count >> GradientSums::shift(level);
      std::vector<float>& parts = parts_[at(level)];
      parts.resize(at(rows * cols));
      sums.parts[at(level)] = parts.data();
      pool_.parallel_for(rows, kGrain, [&](Count begin, Count end) {
        for (Count row = begin; row < end; ++row)
          if (const auto terms = sums.terms_of_part(level, row); terms.count > 0)
            add_terms(sums, terms, parts.data() + row * cols);
      });
    }
    return sums;
  }

  void update(const GradientSums& sums, const OwnRows& rows, RowOptimizer optimizer, const RowStep& step,
              const cuda::Stream& /*stream*/) override {
    switch (optimizer) {
      case RowOptimizer::sgd:
        return update_groups<RowOptimizer::sgd>(sums, rows, step);
      case RowOptimizer::rowwise_adagrad:
        return update_groups<RowOptimizer::rowwise_adagrad>(sums, rows, step);
      case RowOptimizer::adagrad:
        return update_groups<RowOptimizer::adagrad>(sums, rows, step);
      case RowOptimizer::adam:
        return update_groups<RowOptimizer::adam>(sums, rows, step);
    }
  }

  ListedRows list_sums(const GradientSums& sums, std::span<const NodeId> bounds,
                       const cuda::Stream& /*stream*/) override {
    const Count row_bytes = sums.cols * static_cast<Count>(sizeof(float));
    return list(sums.groups, row_bytes, bounds, [&](Count begin, std::byte* to) {
      add_terms(sums, sums.terms_of(begin, sums.groups.end_of(begin)), reinterpret_cast<float*>(to));
    });
  }

  ListedRows list_last(const RowGroups& groups, const std::byte* values, Count row_bytes,
                       std::span<const NodeId> bounds, const cuda::Stream& /*stream*/) override {
    return list(groups, row_bytes, bounds, [&](Count begin, std::byte* to) {
      std::memcpy(to, values + groups.order[groups.end_of(begin) - 1] * row_bytes, at(row_bytes));
    });
  }

 private:
  template <RowOptimizer kOptimizer>
  void update_groups(const GradientSums& sums, const OwnRows& rows, const RowStep& step) {
    pool_.parallel_for(std::ssize(begins_), kGrain, [&](Count first, Count last) {
      std::vector<float> gradient(at(sums.cols));
      for (Count g = first; g < last; ++g) {
        const Count begin = begins_[at(g)];
        add_terms(sums, sums.terms_of(begin, sums.groups.end_of(begin)), gradient.data());
        update_row<kOptimizer>(rows, step, sums.groups.rows[begin] - rows.first, gradient.data());
      }
    });
  }

  template <typename Write>
  ListedRows list(const RowGroups& groups, Count row_bytes, std::span<const NodeId> bounds, Write write) {
    const Count count = std::ssize(begins_);
    listed_rows_.resize(at(count));
    listed_values_.reserve(cuda::Memory::host, count * row_bytes, "rows for other ranks");
    pool_.parallel_for(count, kGrain, [&](Count first, Count last) {
      for (Count g = first; g < last; ++g) {
        listed_rows_[at(g)] = groups.rows[begins_[at(g)]];
        write(begins_[at(g)], listed_values_.data() + g * row_bytes);
      }
    });
    ListedRows listed{listed_rows_.data(), listed_values_.data(), row_bytes, {}};
    for (const NodeId bound : bounds)
      listed.offsets.push_back(std::ranges::lower_bound(listed_rows_, bound) - listed_rows_.begin());
    return listed;
  }

  ThreadPool& pool_;
  std::vector<std::pair<NodeId, std::int32_t>> entries_;
  std::vector<NodeId> rows_, listed_rows_;
  std::vector<std::int32_t> order_;
  std::vector<Count> begins_;  // of the groups
  std::array<std::vector<float>, GradientSums::kLevels + 1> parts_;
  cuda::Array<std::byte> listed_values_;
};

}  // namespace

std::unique_ptr<RowGrouper> make_row_grouper(Device device, ThreadPool& pool) {
#if STRATA_WITH_CUDA
  if (device.is_cuda()) return make_row_grouper_on_gpu(device);
#endif
  (void)device;
  return std::make_unique<CpuGrouper>(pool);
}

}  // namespace strata::batches
