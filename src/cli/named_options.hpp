// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "strata/cli/program.hpp"
#include "strata/util/options.hpp"

namespace strata::cli {

/// The options of a call from a program, which have values with types.
class NamedOptions final : public options::GivenOptions {
 public:
  /// Throws InputError for a name that none of the tables has ("did you mean fanouts?").
  NamedOptions(std::vector<NamedOption> given, const std::vector<const options::OptionTable*>& known,
               const std::string& caller);

  std::vector<std::string> names() const override;
  void apply(const options::OptionTable& table) const override;
  std::string_view dashes() const override { return ""; }

 private:
  std::vector<NamedOption> given_;  ///< with '-' in their names
};

/// The call as a person would write it, of the options that were given: strata.train(graph="parts").
std::string call_text(const std::string& caller, const options::GivenOptions& given,
                      const options::OptionTable& values);

}  // namespace strata::cli
