// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

#include "strata/util/thread_pool.hpp"
#include "strata/util/types.hpp"

namespace strata::graph {

struct Graph;
struct ReadOptions;

/// The graph that "synthetic:KEY=VALUE,..." asks for; parse_synthetic() lists the keys.
struct SyntheticSpec {
  enum class Kind { sbm, rmat, lognormal, grid };
  enum class Weights { none, uniform, lognormal, half_normal };
  Kind kind = Kind::sbm;
  Count nodes = 0;
  Count edges = 0;  ///< directed entries of the CSC before duplicates are removed
  Count features = 0, classes = 0;
  DType dtype = DType::f32;
  Weights weights = Weights::none;  ///< of edges
  Count train = 0, valid = 0, test = 0;
  std::uint64_t seed = 0;
  double noise = 1;        ///< of features, in units of half the distance between two class means
  double homophily = 0.8;  ///< sbm: share of edges within a class
  double sigma = 1.2;      ///< lognormal: standard deviation of the logarithm of the degrees
  double a = 0.57, b = 0.19, c = 0.19;  ///< rmat: shares of three quadrants
  Count width = 0;                      ///< grid: nodes in a row
};

/// Keys (default in brackets; those of a preset may be overridden):
///
///     kind                sbm, rmat, lognormal or grid                                    [sbm]
///     nodes               [10000]
///     edges or degree     directed, before cleaning                                       [degree 20]
///     features            [32]
///     classes             [8]
///     dtype               f32, f16 or bf16                                                [f32]
///     weights             of edges: none, uniform (within (0, 1]), lognormal or half-normal [none]
///     noise               of the features                                                 [1]
///     train, valid, test  numbers of nodes, or shares where written with a point          [0.6, 0.2, 0.2]
///     seed                [0]
///     homophily           sbm                                                             [0.8]
///     sigma               lognormal                                                       [1.2]
///     a, b, c             rmat                                                            [0.57 0.19 0.19]
///     width               grid                           [about the square root of nodes]
///
/// A first entry without "=" names a preset: `products`, `reddit` or `papers100M` (lognormal graphs of the
/// shape of those datasets). If `nodes` is given, the preset's edges and splits are scaled with it. Throws
/// InputError for an unknown key, kind or preset (with the closest known one), and for a value out of range.
SyntheticSpec parse_synthetic(std::string_view text);

std::string synthetic_name(const SyntheticSpec& spec);  ///< name of the graph: "synthetic-sbm"

/// Counterpart of read_graph_digest(): the same for the same graph, however its text is written.
std::string digest_of(const SyntheticSpec& spec);

/// A whole graph, the same for every number of threads. Throws OutOfMemory before work begins if this host
/// has no room for the graph, and InputError for a direction that the kind cannot have.
Graph generate(const SyntheticSpec& spec, const ReadOptions& options, ThreadPool& pool);

}  // namespace strata::graph
