// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "readers/assemble.hpp"
#include "strata/graph/description.hpp"
#include "strata/graph/read_graph.hpp"

namespace strata::graph {

/// A graph with the types and relations of IGBH-Full, and with `source.scale` of its nodes and edges.
///
/// One end of every edge is uniform among its type, the other one skewed; the mean degrees are those of
/// IGBH. Labels of papers are 2983 classes, and features are blurred means of these; the features of other
/// nodes are random. The same for every number of threads. Throws OutOfMemory before work begins.
Graph generate_igbh(const DatasetSource& source, const ReadOptions& options, Assembly& assembly);

/// The same graph without its edges, whose numbers are those before duplicates are removed.
Description describe_igbh(const DatasetSource& source);

}  // namespace strata::graph
