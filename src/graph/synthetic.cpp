#include "synthetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "assemble.hpp"
#include "columns.hpp"
#include "strata/util/error.hpp"
#include "strata/util/format.hpp"
#include "strata/util/memory.hpp"

namespace strata::graph {
namespace {

using Kind = SyntheticSpec::Kind;
constexpr Count kNodesPerPiece = 4096;

/// Nearly normal with mean 0 and variance 1: the sum of four 16-bit uniforms. Exact integer arithmetic but
/// for one product.
float near_normal(std::uint64_t word) {
  const auto sum = static_cast<std::int32_t>((word & 0xffff) + ((word >> 16) & 0xffff) +
                                             ((word >> 32) & 0xffff) + (word >> 48));
  constexpr float kScale = 1.7320508f / 65536.0f;  // the variance of the sum is 65536^2 / 3
  return static_cast<float>(sum - 131070) * kScale;
}

/// Uniform with mean 0 and variance 1.
float centered_uniform(std::uint64_t word) {
  constexpr float kScale = 3.4641016f / 16777216.0f;
  return (static_cast<float>(word >> 40) - 8388607.5f) * kScale;
}

/// Features that tell the class: its mean, blurred. All have variance 1 or so, whatever the noise.
///
/// Two class means are sqrt(2 cols) apart on average; noise 1 blurs by half of that.
class ClassFeatures {
 public:
  ClassFeatures(const SyntheticSpec& spec, const std::vector<std::int32_t>& labels)
      : cols_(spec.features), labels_(labels), words_(spec.seed, Purpose::feature) {
    const double blur = spec.noise * std::sqrt(2.0 * static_cast<double>(cols_)) / 2;
    const double scale = 1 / std::sqrt(1 + blur * blur);
    blur_ = static_cast<float>(blur * scale);
    const KeyedWords means(spec.seed, Purpose::class_mean);
    means_.resize(static_cast<std::size_t>(spec.classes * cols_));
    for (std::size_t i = 0; i < means_.size(); ++i)
      means_[i] = near_normal(means(i)) * static_cast<float>(scale);
  }
  float operator()(NodeId node, Count col) const {
    const Count label = labels_[static_cast<std::size_t>(node)];
    return means_[static_cast<std::size_t>(label * cols_ + col)] +
           blur_ * near_normal(words_(static_cast<std::uint64_t>(node * cols_ + col)));
  }

 private:
  Count cols_;
  const std::vector<std::int32_t>& labels_;
  KeyedWords words_;
  float blur_ = 0;
  std::vector<float> means_;
};

class RandomFeatures {
 public:
  explicit RandomFeatures(const SyntheticSpec& spec)
      : cols_(spec.features), words_(spec.seed, Purpose::feature) {}
  float operator()(NodeId node, Count col) const {
    return centered_uniform(words_(static_cast<std::uint64_t>(node * cols_ + col)));
  }

 private:
  Count cols_;
  KeyedWords words_;
};

template <typename Value, typename Out, typename Convert>
void fill_features(Count rows, Count cols, const Value& value, Out* out, Convert convert, ThreadPool& pool) {
  pool.parallel_for(rows, kNodesPerPiece, [&](Count begin, Count end) {
    for (Count row = begin; row < end; ++row)
      for (Count col = 0; col < cols; ++col) out[row * cols + col] = convert(value(row, col));
  });
}

template <typename Value>
FeatureTable make_features(const SyntheticSpec& spec, const Value& value, ThreadPool& pool) {
  FeatureMemory memory = allocate_features(spec.nodes, spec.features, spec.dtype);
  if (spec.dtype == DType::f32)
    fill_features(
        spec.nodes, spec.features, value, reinterpret_cast<float*>(memory.bytes), [](float x) { return x; },
        pool);
  else if (spec.dtype == DType::f16)
    fill_features(spec.nodes, spec.features, value, reinterpret_cast<std::uint16_t*>(memory.bytes),
                  f32_to_f16, pool);
  else
    fill_features(spec.nodes, spec.features, value, reinterpret_cast<std::uint16_t*>(memory.bytes),
                  f32_to_bf16, pool);
  return memory.table;
}

/// A keyed permutation of the nodes is cut into the three splits; marks give them in ascending order without
/// a sort.
Splits make_splits(const SyntheticSpec& spec, ThreadPool& pool) {
  enum Mark : std::uint8_t { none, train, valid, test };
  std::vector<std::uint8_t> marks(static_cast<std::size_t>(spec.nodes), none);
  const std::uint64_t key = KeyedWords(spec.seed, Purpose::split)(0);
  const Count first_test = spec.train + spec.valid;
  pool.parallel_for(first_test + spec.test, kNodesPerPiece, [&](Count begin, Count end) {
    for (Count i = begin; i < end; ++i)
      marks[shuffled(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(spec.nodes), key)] =
          i < spec.train   ? train
          : i < first_test ? valid
                           : test;
  });
  Splits splits;
  splits.train.reserve(static_cast<std::size_t>(spec.train));
  splits.valid.reserve(static_cast<std::size_t>(spec.valid));
  splits.test.reserve(static_cast<std::size_t>(spec.test));
  for (NodeId v = 0; v < spec.nodes; ++v) switch (marks[static_cast<std::size_t>(v)]) {
      case train:
        splits.train.push_back(v);
        break;
      case valid:
        splits.valid.push_back(v);
        break;
      case test:
        splits.test.push_back(v);
        break;
      default:
        break;
    }
  return splits;
}

/// Bytes at the peak: edge lists are sorted into the CSC, the other kinds are written in place.
double peak_bytes(const SyntheticSpec& spec) {
  const bool sorted = spec.kind == Kind::sbm || spec.kind == Kind::rmat;
  const double id_bytes = spec.nodes < INT32_MAX ? 4 : 8;
  const double per_edge = sorted ? 8 + 8 + 4 + id_bytes : spec.kind == Kind::grid ? 16 : 8;
  const double edges =
      spec.kind == Kind::grid ? 4.0 * static_cast<double>(spec.nodes) : static_cast<double>(spec.edges);
  const double structure = per_edge * edges + 20.0 * static_cast<double>(spec.nodes);
  const double features = static_cast<double>(spec.nodes) * static_cast<double>(spec.features) *
                          static_cast<double>(size_of(spec.dtype));
  const double result = features + (sorted ? 16 : per_edge) * edges + 20.0 * static_cast<double>(spec.nodes);
  return std::max(structure, result);
}

void check_memory(const SyntheticSpec& spec) {
  const double wanted = peak_bytes(spec);
  const std::int64_t free = available_host_bytes();
  if (wanted > static_cast<double>(free))
    throw OutOfMemory(
        fmt::format("no room for the synthetic graph of {} nodes: wanted {}, free {}",
                    format_count(spec.nodes), format_bytes(static_cast<std::int64_t>(std::min(wanted, 9e18))),
                    format_bytes(free)),
        "Ask for fewer nodes, edges or features, or for features of 16 bits (dtype=f16).");
}

}  // namespace

Graph generate(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool) {
  check_memory(spec);
  Graph graph;
  graph.num_classes = spec.classes;
  switch (spec.kind) {
    case Kind::sbm:
      generate_sbm(spec, options, pool, graph);
      break;
    case Kind::rmat:
      generate_rmat(spec, options, pool, graph);
      break;
    case Kind::lognormal:
      generate_lognormal(spec, options, pool, graph);
      break;
    case Kind::grid:
      generate_grid(spec, options, pool, graph);
      break;
  }
  if (spec.features > 0) {
    const bool learnable = spec.kind == Kind::sbm || spec.kind == Kind::grid;
    graph.features = learnable ? make_features(spec, ClassFeatures(spec, graph.labels), pool)
                               : make_features(spec, RandomFeatures(spec), pool);
    if (options.normalize_features) graph.features = normalized(graph.features, pool);
  }
  graph.splits = make_splits(spec, pool);
  return graph;
}

}  // namespace strata::graph
