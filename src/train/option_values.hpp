// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "strata/train/config.hpp"
#include "strata/util/error.hpp"
#include "strata/util/options.hpp"

/// How options of strata-train that are no numbers, names or paths are written and read.
namespace strata::train {

/// A graph as a user names it.
struct GraphSource {
  using Value = graph::Source;
  static std::string hint() { return "SPEC"; }
  static std::string shown(const Value& value) { return value.text(); }
  static Value from_text(std::string_view what, std::string_view text) try {
    return graph::Source(text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", what, error.what()), error.remedy());
  }
};

/// constant, cosine, or step[:UPDATES[:FACTOR]]; a string in a file.
struct ScheduleChoice {
  using Value = LrSchedule;
  static std::string hint() { return "{constant,cosine,step[:UPDATES[:FACTOR]]}"; }
  static std::string shown(const Value& value) {
    if (value.kind != ScheduleKind::step) return std::string(enum_name(value.kind));
    return fmt::format("step:{}:{}", value.step_size, value.gamma);
  }
  static Value from_text(std::string_view what, std::string_view text) {
    const std::size_t colon = text.find(':');
    Value value{.kind = enum_value<ScheduleKind>(text.substr(0, colon), what)};
    if (colon == std::string_view::npos) return value;
    if (value.kind != ScheduleKind::step)
      throw InputError(fmt::format("{} {}: only step takes numbers", what, text),
                       fmt::format("Give {} {}, or step:1000:0.1.", what, enum_name(value.kind)));
    const std::string_view numbers = text.substr(colon + 1);
    const std::size_t second = numbers.find(':');
    value.step_size = options::Integer<Count>::from_text(what, numbers.substr(0, second));
    if (second != std::string_view::npos) value.gamma = options::read_real(what, numbers.substr(second + 1));
    return value;
  }
};

/// A loss, and after a colon its number if it has one: bce, margin:2; a string in a file.
struct LossText {
  using Value = LossChoice;
  static std::string hint() {
    std::vector<std::string> names;
    for (const auto& [kind, name] : enum_names<LossKind>)
      names.push_back(fmt::format("{}{}", name, LossChoice::default_value(kind) == 0 ? "" : "[:FLOAT]"));
    return fmt::format("{{{}}}", fmt::join(names, ","));
  }
  static std::string shown(const Value& value) {
    const std::string name(enum_name(value.kind));
    return LossChoice::default_value(value.kind) == 0 ? name : fmt::format("{}:{}", name, value.value);
  }
  static Value from_text(std::string_view what, std::string_view text) {
    const std::size_t colon = text.find(':');
    Value value = enum_value<LossKind>(text.substr(0, colon), what);
    if (colon == std::string_view::npos) return value;
    if (value.value == 0)
      throw InputError(fmt::format("{} {}: {} takes no number", what, text, text.substr(0, colon)),
                       fmt::format("Give {} {}.", what, text.substr(0, colon)));
    value.value = options::read_real(what, text.substr(colon + 1));
    return value;
  }
};

/// A decoder, and after colons its number and norm if it has them: rotate:9:l1, transe:2; a string in a file.
struct DecoderText {
  using Value = DecoderChoice;
  static std::string hint() { return "{auto,dot,distmult,complex,rotate[:MARGIN[:l1]],transe[:NORM],mlp}"; }
  static std::string shown(const Value& value) {
    const std::string name(enum_name(value.kind));
    return takes_number(value.kind) ? fmt::format("{}:{}{}", name, value.value, value.l1 ? ":l1" : "") : name;
  }
  static Value from_text(std::string_view what, std::string_view text) {
    const std::size_t colon = text.find(':');
    Value value{.kind = enum_value<nn::DecoderKind>(text.substr(0, colon), what)};
    if (colon == std::string_view::npos) return value;
    std::string_view rest = text.substr(colon + 1);
    value.l1 = value.kind == nn::DecoderKind::rotate && rest.ends_with(":l1");
    if (value.l1) rest.remove_suffix(3);
    if (!takes_number(value.kind))
      throw InputError(fmt::format("{} {}: {} takes no number", what, text, text.substr(0, colon)),
                       fmt::format("Give {} {}, rotate:9:l1 or transe:2.", what, text.substr(0, colon)));
    value.value = options::read_real(what, rest);
    return value;
  }

 private:
  static bool takes_number(nn::DecoderKind kind) {
    return kind == nn::DecoderKind::rotate || kind == nn::DecoderKind::transe;
  }
};

/// A number, or "all", which is 0; a string or an integer in a file.
struct NumberOrAll {
  using Value = Count;
  static std::string hint() { return "INT|all"; }
  static std::string shown(Value value) { return value == 0 ? "all" : std::to_string(value); }
  static std::string literal(Value value) { return value == 0 ? "\"all\"" : std::to_string(value); }
  static Value from_text(std::string_view what, std::string_view text) {
    return text == "all" ? 0 : options::Integer<Count, 1>::from_text(what, text);
  }
  static Value from_file(std::string_view what, const options::FileValue& value) {
    const auto* text = value.as<std::string>();
    return text != nullptr ? from_text(what, *text) : options::Integer<Count, 1>::from_file(what, value);
  }
};

/// cites=15,10;writes=5,5; a string in a file.
struct FanoutsByRelation {
  using Value = std::vector<RelationFanouts>;
  static std::string hint() { return "NAME=INT,...[;...]"; }
  static std::string shown(const Value& value) {
    std::vector<std::string> shown;
    for (const RelationFanouts& named : value)
      shown.push_back(fmt::format("{}={}", named.relation, options::Integers::shown(named.fanouts)));
    return fmt::format("{}", fmt::join(shown, ";"));
  }
  static Value from_text(std::string_view what, std::string_view text) {
    Value value;
    while (!text.empty()) {
      const std::string_view one = text.substr(0, text.find(';'));
      text.remove_prefix(std::min(text.size(), one.size() + 1));
      const std::size_t equals = one.rfind('=');
      if (equals == std::string_view::npos || equals == 0)
        throw InputError(fmt::format("{}: \"{}\" does not name a relation and its fanouts", what, one),
                         "Give NAME=15,10 for each of them, separated by semicolons and in quotes.");
      value.push_back({.relation = std::string(one.substr(0, equals)),
                       .fanouts = options::Integers::from_text(what, one.substr(equals + 1))});
    }
    return value;
  }
};

}  // namespace strata::train
