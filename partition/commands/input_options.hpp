// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "strata/graph/read_graph.hpp"
#include "strata/util/row_code.hpp"
#include "strata/util/types.hpp"

namespace strata::partition {

/// The options about the graph to read, as text and then as values.
struct InputOptions {
  std::string spec, direction = "auto", duplicates = "remove", self_loops = "keep", labels;
  std::vector<std::string> features, splits;

  // Values, once finish() was called.
  graph::Source source;
  graph::ReadOptions read;
  graph::NodeFiles files;
  std::string feature_type;  ///< as it was given; empty: none was
  DType feature_dtype = DType::f32;
  RowCode::Kind feature_code = RowCode::Kind::none;

  /// Adds the options to a command; the graph itself is `--input` or, with `positional`, the argument SPEC.
  enum class Naming { option, positional };
  void add_to(CLI::App& command, Naming naming);
  /// Throws InputError, also if an option was given that has no effect on parts.
  void finish(const CLI::App& command, int num_threads);
};

}  // namespace strata::partition
