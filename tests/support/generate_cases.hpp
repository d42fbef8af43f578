// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/store/machine_graph.hpp"

namespace strata::test {

/// A synthetic graph that a machine is asked for.
struct GenerateCase {
  std::string settings;  ///< as after "synthetic:"
  graph::ReadOptions read;
  store::LoadOptions load;

  std::string str() const;  ///< repeats the case
};

/// A kind at odd sizes, in every type, with every option; of "lognormal" also with every policy, among others
/// for lists of more than 64 entries.
std::vector<GenerateCase> generate_cases(const std::string& kind);

/// Expects of batches::generate_graph, bit for bit, what batches::take_graph makes of graph::generate's
/// graph on the same machine. Collective over the machine.
void expect_generates(const comm::Machine& machine, const GenerateCase& generate_case);

}  // namespace strata::test
