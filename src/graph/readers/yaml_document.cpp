// SPDX-License-Identifier: Apache-2.0
#include "readers/yaml_document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostBytes = 16u << 20;  // a description, not data
constexpr const char* kSpecification = "See GraphBolt's OnDiskDataset specification.";

YAML::Node parse(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    throw InputError(fmt::format("{}: no such file", path.string()),
                     "Give the folder of a GraphBolt OnDiskDataset.");
  if (const std::uintmax_t bytes = fs::file_size(path, error); bytes > kMostBytes)
    throw InputError(
        fmt::format("{}: {} of text", path.string(), format_bytes(static_cast<std::int64_t>(bytes))),
        "It describes a dataset in some lines; the data lie in files of their own.");
  const std::string text = read_file(path);
  refuse_compressed(text, path.string());
  require_utf8(text, path.string());
  if (const std::size_t zero = text.find('\0');
      zero != std::string::npos)  // because the parser would take it for a sign of UTF-16 or UTF-32
    throw InputError(fmt::format("{}: byte 0x00 at offset {} is not text", path.string(), zero),
                     "Save it as UTF-8.");
  try {
    return YAML::Load(std::string(without_byte_order_mark(text)));
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("{}:{}: {}", path.string(), error.mark.line + 1, printable(error.msg)),
                     "Correct the line.");
  }
}

/// The known field that a name means: "val_set" and "train" differ too much from "validation_set" and
/// "train_set" to be typing errors.
std::string meant_by(const std::string& name, const KnownFields& known) {
  const std::string near = closest(name, known.used);
  if (!near.empty() || name.size() < 3) return near;
  const auto alike = [&](const std::string& field) {
    return field.starts_with(name) || (name.ends_with("_set") && field.ends_with("_set"));
  };
  const auto same_start = [&](const std::string& field) {
    return alike(field) && field.starts_with(name.substr(0, 3));
  };
  auto found = std::ranges::find_if(known.used, same_start);
  if (found == known.used.end()) found = std::ranges::find_if(known.used, alike);
  return found == known.used.end() ? "" : *found;
}

}  // namespace

YamlDocument::YamlDocument(fs::path path) : path_(std::move(path)), root_(parse(path_)) {
  if (!root_.IsMap()) throw InputError(fmt::format("{}: not a YAML mapping", path_.string()), kSpecification);
}

void YamlDocument::refuse(const YAML::Node& at, const std::string& what, const std::string& remedy) const {
  throw InputError(fmt::format("{}:{}: {}", path_.string(), at.Mark().line + 1, what), remedy);
}

void YamlDocument::warn(const YAML::Node& at, const std::string& what) const {
  spdlog::warn("{}:{}: {}", path_.string(), at.Mark().line + 1, what);
}

void YamlDocument::check_fields(const YAML::Node& mapping, const KnownFields& known) const {
  if (!mapping.IsMap())
    refuse(mapping, fmt::format("{} is not a mapping of fields", known.owner), kSpecification);
  std::set<std::string> seen;
  for (const auto& field : mapping) {
    const YAML::Node& key = field.first;
    if (!key.IsScalar())
      refuse(mapping, fmt::format("{} has a field whose name is no text", known.owner), kSpecification);
    if (!seen.insert(key.Scalar()).second)
      refuse(key, fmt::format("{} has the field '{}' twice", known.owner, printable(key.Scalar())),
             "Remove one.");
    check_name(mapping, key, known);
  }
}

void YamlDocument::check_name(const YAML::Node& mapping, const YAML::Node& key,
                              const KnownFields& known) const {
  const std::string& name = key.Scalar();
  const auto is_in = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (is_in(known.used) || is_in(known.unused)) return;
  const std::string meant = meant_by(name, known);
  if (!meant.empty() && !mapping[meant])
    refuse(key, fmt::format("{} has no field '{}'", known.owner, printable(name)),
           fmt::format("Did you mean '{}'? Known are: {}.", meant, fmt::join(known.used, ", ")));
  warn(key, fmt::format("unknown field '{}' of {}: not read{}", printable(name), known.owner,
                        meant.empty() ? "" : fmt::format("; '{}' is", meant)));
}

YAML::Node YamlDocument::require(const YAML::Node& mapping, const std::string& field) const {
  const YAML::Node value = mapping[field];
  if (!value) refuse(mapping, fmt::format("no field '{}'", field), kSpecification);
  return value;
}

std::vector<YAML::Node> YamlDocument::list(const YAML::Node& mapping, const std::string& field) const {
  const YAML::Node value = mapping[field];
  if (!value) return {};
  if (!value.IsSequence())
    refuse(value, fmt::format("'{}' is not a list", field), "Write a list, or leave the field out.");
  return {value.begin(), value.end()};
}

YAML::Node YamlDocument::require_only(const YAML::Node& mapping, const std::string& field) const {
  const YAML::Node value = require(mapping, field);
  const std::vector<YAML::Node> entries = list(mapping, field);
  if (entries.empty())
    refuse(value, fmt::format("'{}' is not a list with an entry", field), "Correct the field.");
  if (entries.size() > 1)
    refuse(value, fmt::format("'{}' names {} types", field, entries.size()),
           "Only graphs of one node type and one edge type are supported.");
  return entries[0];
}

std::string YamlDocument::require_text(const YAML::Node& mapping, const std::string& field) const {
  const YAML::Node value = require(mapping, field);
  if (!value.IsScalar()) refuse(value, fmt::format("field '{}' is not a text", field), "Correct the field.");
  return value.Scalar();
}

std::optional<std::string> YamlDocument::text(const YAML::Node& mapping, const std::string& field) const {
  if (!mapping[field]) return std::nullopt;
  return require_text(mapping, field);
}

std::int64_t YamlDocument::require_number(const YAML::Node& mapping, const std::string& field) const {
  const YAML::Node value = require(mapping, field);
  const std::string text = require_text(mapping, field);
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end)
    refuse(value, fmt::format("field '{}': '{}' is not a whole number", field, printable(text.substr(0, 40))),
           "Correct the field.");
  if (number < 0) refuse(value, fmt::format("{}: {} is negative", field, number), "Correct the field.");
  return number;
}

}  // namespace strata::graph
