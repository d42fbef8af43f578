// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>

#include "strata/graph/read_graph.hpp"
#include "strata/util/options.hpp"
#include "strata/util/row_code.hpp"
#include "strata/util/types.hpp"

namespace strata::partition {

/// The options about the graph to read.
struct InputOptions {
  std::string spec;
  std::function<graph::Graph(int num_threads)> given;  ///< makes a graph, which `spec` only names; null: none
  graph::Source source;                                ///< once finish() was called
  graph::ReadOptions read;
  graph::NodeFiles files;
  std::filesystem::path targets;  ///< --targets, which becomes one of `files`
  std::string feature_type;       ///< as it was given; empty: none was
  DType feature_dtype = DType::f32;
  RowCode::Kind feature_code = RowCode::Kind::none;

  /// Adds the options to those of a command; the graph itself is `--input` or the place SPEC.
  enum class Naming { option, place };
  void add_to(options::OptionTable& table, Naming naming);
  /// Throws InputError, also if an option was given that has no effect on parts.
  void finish(const options::GivenOptions& options, int num_threads);

 private:
  void take_targets();
};

}  // namespace strata::partition
