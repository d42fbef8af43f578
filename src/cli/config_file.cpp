// SPDX-License-Identifier: Apache-2.0
#include "strata/cli/config_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <system_error>

#include "hints.hpp"
#include "strata/util/text.hpp"

namespace strata::cli {
namespace {

/// Whether the text mentions the option, and not only as a part of another: "--epochs" in "--epochs-more".
bool mentions(const std::string& text, const std::string& option) {
  for (std::size_t at = text.find(option); at != std::string::npos; at = text.find(option, at + 1)) {
    const std::size_t end = at + option.size();
    if (end == text.size() || (text[end] != '-' && std::isalnum(static_cast<unsigned char>(text[end])) == 0))
      return true;
  }
  return false;
}

using options::FileValue;
using options::Option;
using options::OptionTable;
using train::train_options;

FileValue value_of(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return {value->get()};
  if (const auto* value = node.as_integer()) return {value->get()};
  if (const auto* value = node.as_floating_point()) return {value->get()};
  if (const auto* value = node.as_string()) return {value->get()};
  if (const auto* array = node.as_array()) {
    FileValue::Array entries;
    for (const toml::node& entry : *array) entries.push_back(value_of(entry));
    return {std::move(entries)};
  }
  return {FileValue::Unusable{node.is_table() ? "a table" : "a date or time"}};
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = closest(word, candidates);
  return near.empty() ? "" : fmt::format("Did you mean {}? ", near);
}

/// Sets the options that a document gives.
class Reader {
 public:
  Reader(std::string name, const train::TrainSettings& settings)
      : name_(std::move(name)),
        settings_(settings),
        options_(train_options(settings_)),
        groups_(options_.tables()) {}

  ConfigFile read(std::string_view text) {
    const toml::table document = parse(text);
    for (const auto& [key, node] : document) {
      // A group may have the name of an option: model = "sage", but [model].
      const bool is_group = std::ranges::find(groups_, key.str()) != groups_.end();
      if (node.is_table() && (is_group || options_.find(key.str()) == nullptr))
        read_group(key, *node.as_table());
      else
        read_option(key, node, "");
    }
    settle();
    return {.settings = settings_, .given_at = std::move(given_at_)};
  }

 private:
  [[noreturn]] void refuse(const toml::source_region& at, std::string_view message,
                           const std::string& remedy) const {
    throw InputError(fmt::format("{}: {}", place(at), message), remedy);
  }
  std::string place(const toml::source_region& at) const {
    return fmt::format("{}:{}:{}", name_, at.begin.line, at.begin.column);
  }

  toml::table parse(std::string_view text) const try {
    return toml::parse(text, name_);
  } catch (const toml::parse_error& error) {
    refuse(error.source(), error.description(),
           "A configuration file is TOML, a key and its value per line: hidden = 256, model = \"sage\", "
           "fanouts = [15, 10, 5].");
  }

  void read_group(const toml::key& key, const toml::table& group) {
    if (std::ranges::find(groups_, key.str()) == groups_.end()) {
      refuse(key.source(), fmt::format("there is no table [{}]", key.str()),
             fmt::format("{}The tables are [{}]; options may also stand in none, above them.",
                         did_you_mean(key.str(), groups_), fmt::join(groups_, "], [")));
    }
    for (const auto& [name, node] : group) read_option(name, node, key.str());
  }

  /// `group` is the table that contains the option, or empty.
  void read_option(const toml::key& key, const toml::node& node, std::string_view group) {
    const Option* option = options_.find(key.str());
    if (option == nullptr) refuse_unknown(key);
    if (!group.empty() && option->table != group) {
      refuse(key.source(), fmt::format("{} is in table [{}]", key.str(), group),
             fmt::format("It belongs in [{}], or in no table, above all of them.", option->table));
    }
    const auto [earlier, is_new] = given_at_.try_emplace(option->name, place(key.source()));
    if (!is_new) {
      refuse(key.source(), fmt::format("{} is given twice", key.str()),
             fmt::format("Leave this one out, or the one at {}.", earlier->second));
    }
    try {
      option->read_file(option->name, value_of(node));
    } catch (const InputError& error) {
      refuse(node.source(), error.what(), error.remedy());
    }
  }

  [[noreturn]] void refuse_unknown(const toml::key& key) const {
    if (std::ranges::find(groups_, key.str()) != groups_.end()) {
      refuse(key.source(), fmt::format("{} is a group of options", key.str()),
             fmt::format("Write [{}] in a line of its own, and the group's options below.", key.str()));
    }
    const std::string hint = hint_for_option(key.str());
    refuse(key.source(), fmt::format("unknown option {}", key.str()),
           (hint.empty() ? did_you_mean(key.str(), options_.names()) : hint + " ") +
               "strata-train --help all lists all options.");
  }

  void settle() {
    const auto is_given = [this](std::string_view name) { return given_at_.contains(std::string(name)); };
    try {
      train::settle_resume(settings_, is_given, "");
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", given_at_.at("resume"), error.what()), error.remedy());
    }
  }

  std::string name_;
  train::TrainSettings settings_;
  OptionTable options_;  ///< bound to settings_
  std::vector<std::string> groups_;
  std::map<std::string, std::string> given_at_;
};

}  // namespace

ConfigFile parse_config_file(std::string_view text, const std::string& name,
                             const train::TrainSettings& settings) {
  return Reader(name, settings).read(text);
}

ConfigFile read_config_file(const std::filesystem::path& path, const train::TrainSettings& settings) {
  constexpr std::streamsize kMost = 1 << 20;  // a larger file is no configuration
  std::error_code failed;
  const auto refuse = [&](const char* why) {
    throw InputError(fmt::format("--config {}{}", path.string(), why), "Name a TOML file.");
  };
  if (!std::filesystem::exists(path, failed)) refuse(": no such file");
  if (std::filesystem::is_directory(path, failed)) refuse(" is a directory");
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(kMost) + 1, '\0');
  if (file) file.read(text.data(), kMost + 1);
  if (!file && !file.eof()) refuse(" cannot be read");
  if (file.gcount() > kMost) refuse(" is larger than 1 MiB");
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_config_file(text, path.string(), settings);
}

void with_places(const std::map<std::string, std::string>& given_at, const std::function<void()>& check) {
  try {
    check();
  } catch (const InputError& error) {
    std::string places;
    for (const auto& [name, place] : given_at)
      if (mentions(error.what(), "--" + name)) places += (places.empty() ? "" : ", ") + place;
    if (places.empty()) throw;
    throw InputError(fmt::format("{} ({})", error.what(), places), error.remedy());
  }
}

}  // namespace strata::cli
