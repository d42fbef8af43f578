// SPDX-License-Identifier: Apache-2.0
#include "generators/planted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "strata/graph/synthetic.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::graph {
namespace {

constexpr int kMostParts = 1 << 16;
constexpr Count kMostDegree = Count{1} << 16;
constexpr double kMostMeanDegree = 1000;  // a degree is at most 32 / 1.65 times the mean

template <typename T>
T parsed(std::string_view key, std::string_view value) {
  T number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc{} && end == value.data() + value.size()) return number;
  throw InputError(fmt::format("planted: {}={} is no number", key, value), "Correct the value.");
}

[[noreturn]] void refuse_planted(const std::string& what, const std::string& remedy) {
  throw InputError("planted: " + what, remedy);
}

/// The graph's formulas; a value.
class Formulas {
 public:
  explicit Formulas(const PlantedSpec& spec)
      : spec_(spec),
        degree_words_(spec.shape.seed, Purpose::degree),
        edge_words_(spec.shape.seed, Purpose::edge),
        label_words_(spec.shape.seed, Purpose::label),
        means_(class_means(spec.shape)),
        mean_degree_(static_cast<double>(spec.shape.edges) / static_cast<double>(spec.shape.nodes)) {}

  const SyntheticSpec& shape() const { return spec_.shape; }
  /// The first node of part `part`; part = parts gives the number of nodes.
  NodeId first_of(int part) const {
    return shape().nodes / spec_.parts * part + shape().nodes % spec_.parts * part / spec_.parts;
  }
  Count size_of_part(int part) const { return first_of(part + 1) - first_of(part); }

  struct Degree {
    Count inner = 0, outer = 0;  ///< numbers of neighbors in the same part, and in others
    Count all() const { return inner + outer; }
  };
  Degree degree(int part, NodeId v) const {
    constexpr double kMeanOfLognormal = 1.6487212707001282;
    const std::uint64_t word = degree_words_(static_cast<std::uint64_t>(v));
    const auto requested = static_cast<Count>(mean_degree_ / kMeanOfLognormal *
                                                  static_cast<double>(WeightFormula::near_lognormal(word)) +
                                              unit_double(mix64(word)));
    const Count all = std::min(requested, kMostDegree - 1);
    const double inner = spec_.within * static_cast<double>(all) + unit_double(mix64(word + 1));
    const Count size = size_of_part(part);
    Degree degree{.inner = spec_.parts == 1 ? all : std::min(static_cast<Count>(inner), all)};
    degree.outer = all - degree.inner;
    degree.inner = std::min(degree.inner, size);
    return degree;
  }

  /// The in-neighbors of a node: first those of its part, then the others, each ascending.
  void list(int part, NodeId v, std::vector<NodeId>& out) const {
    const Degree d = degree(part, v);
    out.resize(at(d.all()));
    const auto first_word = static_cast<std::uint64_t>(v) * static_cast<std::uint64_t>(kMostDegree);
    const Count size = size_of_part(part);
    const SkewedList inner(edge_words_, size, static_cast<Count>(first_word), d.inner);
    NodeId previous = -1;
    for (Count j = 0; j < d.inner; ++j) {
      previous = std::min(std::max(previous + 1, inner.requested(j)), size - 1);
      out[at(j)] = first_of(part) + previous;
    }
    for (Count j = d.inner; j < d.all(); ++j) {
      const std::uint64_t word = edge_words_(first_word + static_cast<std::uint64_t>(j));
      const auto other = static_cast<int>(mix64(word) % static_cast<std::uint64_t>(spec_.parts - 1));
      const int from = other < part ? other : other + 1;
      const double u = unit_double(word);
      out[at(j)] = first_of(from) + static_cast<NodeId>(u * u * static_cast<double>(size_of_part(from)));
    }
    std::sort(out.begin() + d.inner, out.end());
  }

  std::int32_t label(NodeId v) const {
    return static_cast<std::int32_t>(label_words_(static_cast<std::uint64_t>(v)) %
                                     static_cast<std::uint64_t>(shape().classes));
  }
  FeatureFormula features() const { return feature_formula(shape(), means_); }

 private:
  PlantedSpec spec_;
  KeyedWords degree_words_, edge_words_, label_words_;
  ClassMeans means_;
  double mean_degree_;
};

/// Spreads `chosen` things evenly among `among`: thing i is chosen if a multiple of among / chosen lies
/// between i and i + 1.
struct Spread {
  Count chosen = 0, among = 1;

  Count before(Count i) const { return static_cast<Count>(static_cast<__int128>(i) * chosen / among); }
  bool takes(Count i) const { return before(i + 1) > before(i); }
  Count place_of(Count rank) const {  ///< position of the chosen thing number `rank`
    return static_cast<Count>((static_cast<__int128>(rank + 1) * among + chosen - 1) / chosen) - 1;
  }
};

/// The nodes among [first, first + size) that are in each split, and their positions in it.
struct SplitChoice {
  PartData::SplitRows train, valid, test;

  SplitChoice(const SyntheticSpec& spec, NodeId first, Count size) {
    const Count num_marked = spec.train + spec.valid + spec.test;
    const Spread marked{num_marked, spec.nodes}, trained{spec.train, std::max<Count>(1, num_marked)},
        validated{spec.valid, std::max<Count>(1, spec.valid + spec.test)};
    for (Count i = marked.before(first); i < marked.before(first + size); ++i) {
      const Count row = marked.place_of(i) - first, rank = trained.before(i), rest = i - rank;
      if (trained.takes(i)) {
        add(train, row, rank);
      } else if (validated.takes(rest)) {
        add(valid, row, validated.before(rest));
      } else {
        add(test, row, rest - validated.before(rest));
      }
    }
  }
  const PartData::SplitRows& of(Split split) const {
    return split == Split::train ? train : split == Split::valid ? valid : test;
  }

 private:
  static void add(PartData::SplitRows& split, Count row, Count rank) {
    split.rows.push_back(row);
    split.ranks.push_back(rank);
  }
};

class PlantedPart final : public PartSource {
 public:
  PlantedPart(const PlantedSpec& spec, int part)
      : formulas_(spec),
        part_(part),
        first_(formulas_.first_of(part)),
        size_(formulas_.size_of_part(part)),
        splits_(spec.shape, first_, size_),
        indptr_(at(size_) + 1) {
    ThreadPool pool(0);
    constexpr Count kGrain = 1 << 16;
    pool.parallel_for(size_, kGrain, [&](Count begin, Count end) {
      for (Count row = begin; row < end; ++row)
        indptr_[at(row) + 1] = formulas_.degree(part_, first_ + row).all();
    });
    std::partial_sum(indptr_.begin(), indptr_.end(), indptr_.begin());
  }

  Count num_inner() const override { return size_; }
  Count num_edges() const override { return indptr_.back(); }
  void read_indptr(Count first, Count count, Count* out, RecentBlocks*) const override {
    check(first, count, size_ + 1);
    std::copy_n(indptr_.begin() + first, count, out);
  }
  void read_indices(Count first, Count count, NodeId* out, RecentBlocks*) const override {
    check(first, count, num_edges());
    std::vector<NodeId> list;
    Count row = std::ranges::upper_bound(indptr_, first) - indptr_.begin() - 1;
    for (Count done = 0; done < count; ++row) {
      formulas_.list(part_, first_ + row, list);
      const Count skipped = first + done - indptr_[at(row)];
      const Count taken = std::min(std::ssize(list) - skipped, count - done);
      std::copy_n(list.begin() + skipped, taken, out + done);
      done += taken;
    }
  }
  void read_edge_ids(Count, Count, EdgeId*, RecentBlocks*) const override { lacks("edge ids"); }
  void read_weights(Count, Count, float*, RecentBlocks*) const override { lacks("edge weights"); }
  void read_original_ids(Count first, Count count, NodeId* out) const override {
    check(first, count, size_);
    std::iota(out, out + count, first_ + first);
  }
  void read_labels(Count first, Count count, std::int32_t* out) const override {
    check(first, count, size_);
    for (Count i = 0; i < count; ++i) out[i] = formulas_.label(first_ + first + i);
  }
  void read_clusters(Count, Count, std::int32_t*, RecentBlocks*) const override { lacks("clusters"); }
  void read_features(Count first_row, Count num_rows, void* out, RecentBlocks*) const override {
    check(first_row, num_rows, size_);
    const FeatureFormula formula = formulas_.features();
    auto* values = static_cast<float*>(out);
    for (NodeId v = first_ + first_row; v < first_ + first_row + num_rows; ++v) {
      const std::int32_t label = formulas_.label(v);
      for (Count col = 0; col < formula.cols; ++col) *values++ = formula(v, col, label);
    }
  }
  Count feature_block_rows() const override { return 1; }
  PartData::SplitRows read_split(Split split) const override { return splits_.of(split); }
  Count split_size(Split split) const override { return std::ssize(splits_.of(split).rows); }
  void read_split_rows(Split split, Count first, Count count, Count* out) const override {
    const std::vector<Count>& rows = splits_.of(split).rows;
    check(first, count, std::ssize(rows));
    std::copy_n(rows.begin() + first, count, out);
  }
  void read_split_ranks(Split split, Count first, Count count, Count* out) const override {
    const std::vector<Count>& ranks = splits_.of(split).ranks;
    check(first, count, std::ssize(ranks));
    std::copy_n(ranks.begin() + first, count, out);
  }

 private:
  void check(Count first, Count count, Count size) const {
    if (first >= 0 && count >= 0 && first <= size - count) return;
    throw InputError(
        fmt::format("planted part {}: elements [{}, {}) of {} wanted", part_, first, first + count, size));
  }
  [[noreturn]] static void lacks(const char* what) {
    refuse_planted(fmt::format("the graph has no {}", what),
                   "Build one with strata-partition from synthetic:...");
  }

  Formulas formulas_;
  int part_;
  NodeId first_;
  Count size_;
  SplitChoice splits_;
  std::vector<Count> indptr_;
};

Count count_edges(const Formulas& formulas, int parts) {
  std::atomic<Count> edges{0};
  ThreadPool pool(0);
  for (int part = 0; part < parts; ++part) {
    constexpr Count kGrain = 1 << 16;
    pool.parallel_for(formulas.size_of_part(part), kGrain, [&](Count begin, Count end) {
      Count sum = 0;
      for (NodeId v = formulas.first_of(part) + begin; v < formulas.first_of(part) + end; ++v)
        sum += formulas.degree(part, v).all();
      edges += sum;
    });
  }
  return edges;
}

}  // namespace

PlantedSpec parse_planted(std::string_view text) {
  PlantedSpec spec;
  std::string others;
  while (!text.empty()) {
    const std::size_t end = text.find(',');
    const std::string_view entry = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    constexpr std::string_view kParts = "parts=", kWithin = "within=";
    if (entry.starts_with(kParts)) {
      spec.parts = parsed<int>("parts", entry.substr(kParts.size()));
    } else if (entry.starts_with(kWithin)) {
      spec.within = parsed<double>("within", entry.substr(kWithin.size()));
    } else {
      others += (others.empty() ? "" : ",") + std::string(entry);
    }
  }
  spec.shape = parse_synthetic(others);
  if (spec.parts < 1 || spec.parts > std::min<Count>(kMostParts, spec.shape.nodes))
    refuse_planted(fmt::format("parts={} for {} nodes", spec.parts, spec.shape.nodes),
                   fmt::format("Give 1 to {}, a node for each at least.", kMostParts));
  if (!(spec.within >= 0 && spec.within <= 1))
    refuse_planted(fmt::format("within={} is no share", spec.within), "Give 0 to 1.");
  if (spec.shape.weights != SyntheticSpec::Weights::none || spec.shape.dtype != DType::f32)
    refuse_planted("edges have no weights, and features are f32", "Leave weights and dtype out.");
  if (static_cast<double>(spec.shape.edges) > kMostMeanDegree * static_cast<double>(spec.shape.nodes))
    refuse_planted(fmt::format("{} edges for {} nodes", spec.shape.edges, spec.shape.nodes),
                   fmt::format("Ask for at most {} edges per node.", kMostMeanDegree));
  spec.shape.kind = SyntheticSpec::Kind::sbm;  // so that features depend on the classes
  return spec;
}

std::string digest_of(const PlantedSpec& spec) {
  const std::string text = fmt::format("planted {} {} {}", spec.parts, spec.within, digest_of(spec.shape));
  return hex64(hash_bytes(text.data(), text.size()));
}

Manifest planted_manifest(const PlantedSpec& spec) {
  const Formulas formulas(spec);
  std::vector<NodeId> offsets;
  for (int part = 0; part <= spec.parts; ++part) offsets.push_back(formulas.first_of(part));
  return {.name = "planted",
          .build_id = {},
          .book = PartitionBook(std::move(offsets)),
          .num_edges = count_edges(formulas, spec.parts),
          .undirected = false,
          .has_edge_weights = false,
          .feature_cols = spec.shape.features,
          .feature_dtype = DType::f32,
          .num_classes = spec.shape.classes,
          .has_labels = true,
          .num_train = spec.shape.train,
          .num_valid = spec.shape.valid,
          .num_test = spec.shape.test};
}

std::unique_ptr<PartSource> make_planted_part(const PlantedSpec& spec, int part) {
  return std::make_unique<PlantedPart>(spec, part);
}

}  // namespace strata::graph
