// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace strata::graph {

/// The names that a mapping may hold. An unknown name is refused if it is close to a missing `used` one,
/// which was probably meant; other unknown names cause a warning.
struct KnownFields {
  std::string owner;  ///< used in messages: "a task"
  std::vector<std::string> used;
  std::vector<std::string> unused = {};  ///< legal names that Strata does not read
};

/// A YAML file whose fields are read by name. All errors are InputErrors with the file and the line.
///
/// Keep nodes in optionals and set them with emplace(), because assigning to a YAML::Node would change the
/// document.
class YamlDocument {
 public:
  /// Throws InputError if the file is missing, not UTF-8, not YAML or not a mapping.
  explicit YamlDocument(std::filesystem::path path);

  const YAML::Node& root() const { return root_; }
  const std::filesystem::path& path() const { return path_; }
  [[noreturn]] void refuse(const YAML::Node& at, const std::string& what, const std::string& remedy) const;

  void warn(const YAML::Node& at, const std::string& what) const;

  /// Refuses anything but a mapping, names that occur twice, and misspelt names.
  void check_fields(const YAML::Node& mapping, const KnownFields& known) const;

  // All functions below take mappings.
  YAML::Node require(const YAML::Node& mapping, const std::string& field) const;
  /// The entries of a list; none if there is no such field.
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
