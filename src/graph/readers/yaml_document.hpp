// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace strata::graph {

/// What a mapping may hold. An unknown name is refused where it is close to a `used` one that is missing,
/// which was probably meant; any other is warned of.
struct KnownFields {
  std::string owner;  ///< "a task", for messages
  std::vector<std::string> used;
  std::vector<std::string> unused = {};  ///< legal, but read by nobody here
};

/// A YAML file whose fields are asked for by name. Every refusal is an InputError that names the file and the
/// line.
///
/// Nodes are kept in optionals with emplace: assigning to a YAML::Node would change the document.
class YamlDocument {
 public:
  /// Throws InputError: missing, not UTF-8, not YAML, not a mapping.
  explicit YamlDocument(std::filesystem::path path);

  const YAML::Node& root() const { return root_; }
  const std::filesystem::path& path() const { return path_; }
  [[noreturn]] void refuse(const YAML::Node& at, const std::string& what, const std::string& remedy) const;

  /// Refuses what is not a mapping, a name that stands in it twice, and misspelt names.
  void check_fields(const YAML::Node& mapping, const KnownFields& known) const;

  // All take mappings.
  YAML::Node require(const YAML::Node& mapping, const std::string& field) const;
  /// A list, empty where there is no such field.
  std::vector<YAML::Node> list(const YAML::Node& mapping, const std::string& field) const;
  /// The only entry of a list.
  YAML::Node require_only(const YAML::Node& mapping, const std::string& field) const;
  std::string require_text(const YAML::Node& mapping, const std::string& field) const;
  std::optional<std::string> text(const YAML::Node& mapping, const std::string& field) const;
  std::int64_t require_number(const YAML::Node& mapping, const std::string& field) const;  ///< not negative

 private:
  void check_name(const YAML::Node& mapping, const YAML::Node& key, const KnownFields& known) const;

  std::filesystem::path path_;
  YAML::Node root_;
};

}  // namespace strata::graph
