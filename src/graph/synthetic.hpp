#pragma once
#include <cstdint>
#include <vector>

#include "strata/graph/graph.hpp"
#include "strata/util/random.hpp"
#include "strata/util/thread_pool.hpp"
#include "synthetic_spec.hpp"

namespace strata::graph {

/// What a random word of the generators is for; different purposes share no bits.
enum class Purpose : std::uint64_t { degree = 1, edge, member, label, feature, class_mean, split };

/// Random words keyed by (seed, purpose, index): the stream of SplitMix64, read at any place.
class KeyedWords {
 public:
  KeyedWords(std::uint64_t seed, Purpose purpose)
      : base_(mix64(mix64(seed) + static_cast<std::uint64_t>(purpose))) {}
  std::uint64_t operator()(std::uint64_t index) const { return mix64(base_ + index * 0x9E3779B97F4A7C15ull); }
  double unit(std::uint64_t index) const { return unit_double((*this)(index)); }

 private:
  std::uint64_t base_;
};

/// Structure, `undirected`, labels and cleaning of a synthetic graph; the same for every thread count.
void generate_sbm(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool, Graph& graph);
void generate_rmat(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool, Graph& graph);
void generate_lognormal(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool,
                        Graph& graph);
void generate_grid(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool, Graph& graph);

std::vector<std::int32_t> random_labels(const SyntheticSpec& spec, ThreadPool& pool);

/// A whole graph. Throws OutOfMemory before work begins if this host has no room for it.
Graph generate(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool);

}  // namespace strata::graph
