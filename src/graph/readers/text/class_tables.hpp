// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "readers/assemble.hpp"
#include "strata/graph/read_graph.hpp"

namespace strata::graph {

/// Sets labels and splits from tables of text, one per split, with a column of names of nodes and a column of
/// names of classes, which are numbered in the order of their bytes. source.train, valid and test name the
/// tables, relative to the folder of source.place, and source.tables their columns. Throws InputError with
/// the line.
void read_class_tables(const DatasetSource& source, ThreadPool& pool, Graph& graph);

/// The tables that the source names.
std::vector<std::filesystem::path> class_tables(const DatasetSource& source);

}  // namespace strata::graph
