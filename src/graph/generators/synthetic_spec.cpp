// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "strata/graph/synthetic.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

using Kind = SyntheticSpec::Kind;

constexpr Count kMostNodes = (Count{1} << 40) - 1;  // what keyed permutations can hold
constexpr Count kMostEdges = Count{1} << 44;

struct KnownKey {
  const char* name;
  std::optional<Kind> only;  ///< the only kind that has this key; none: all kinds
};

constexpr std::array kKeys = {KnownKey{"kind", {}},
                              KnownKey{"nodes", {}},
                              KnownKey{"edges", {}},
                              KnownKey{"degree", {}},
                              KnownKey{"features", {}},
                              KnownKey{"classes", {}},
                              KnownKey{"dtype", {}},
                              KnownKey{"weights", {}},
                              KnownKey{"noise", {}},
                              KnownKey{"train", {}},
                              KnownKey{"valid", {}},
                              KnownKey{"test", {}},
                              KnownKey{"seed", {}},
                              KnownKey{"homophily", Kind::sbm},
                              KnownKey{"sigma", Kind::lognormal},
                              KnownKey{"a", Kind::rmat},
                              KnownKey{"b", Kind::rmat},
                              KnownKey{"c", Kind::rmat},
                              KnownKey{"width", Kind::grid}};

/// Default values. If `nodes` is given, edges and splits are scaled with it.
struct Preset {
  const char* name;
  Kind kind;
  Count nodes, edges, features, classes, train, valid, test;

  double degree() const { return static_cast<double>(edges) / static_cast<double>(nodes); }
  double share(Count part) const { return static_cast<double>(part) / static_cast<double>(nodes); }
};

constexpr Preset kPlain{"", Kind::sbm, 10'000, 200'000, 32, 8, 6'000, 2'000, 2'000};
constexpr std::array kPresets = {
    Preset{"products", Kind::lognormal, 2'449'029, 123'718'280, 100, 47, 196'615, 39'323, 2'213'091},
    Preset{"reddit", Kind::lognormal, 232'965, 114'615'892, 602, 41, 153'431, 23'831, 55'703},
    Preset{"papers100M", Kind::lognormal, 111'059'956, 1'615'685'872, 128, 172, 1'207'179, 125'265, 214'338}};

template <typename Known>
std::vector<std::string> names_of(const Known& known) {
  std::vector<std::string> names;
  for (const auto& entry : known) names.emplace_back(entry.name);
  return names;
}

[[noreturn]] void refuse_spec(const std::string& what, const std::string& remedy) {
  throw InputError(fmt::format("synthetic: {}", what), remedy);
}

[[noreturn]] void refuse_unknown(const char* what, std::string_view word,
                                 const std::vector<std::string>& known) {
  const std::string near = closest(word, known);
  refuse_spec(fmt::format("unknown {} '{}'", what, word),
              near.empty() ? fmt::format("Known are: {}.", fmt::join(known, ", "))
                           : fmt::format("Did you mean '{}'?", near));
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(',');
    if (const std::string_view part = text.substr(0, end); !part.empty()) parts.push_back(part);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

struct Settings {
  Preset preset = kPlain;
  std::map<std::string, std::string, std::less<>> values;
};

Preset find_preset(std::string_view name) {
  for (const Preset& preset : kPresets)
    if (name == preset.name) return preset;
  refuse_unknown("preset", name, names_of(kPresets));
}

Settings parse_settings(std::string_view text) {
  Settings settings;
  bool first = true;
  for (const std::string_view part : split_at_commas(text)) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      settings.preset = find_preset(part);
      if (!first)
        refuse_spec(fmt::format("preset '{}' is not the first entry", part),
                    "Give it first, then what to override.");
    } else {
      const std::string key(part.substr(0, equals));
      const auto is_key = [&](const KnownKey& known) { return key == known.name; };
      if (std::none_of(kKeys.begin(), kKeys.end(), is_key)) refuse_unknown("key", key, names_of(kKeys));
      if (!settings.values.emplace(key, part.substr(equals + 1)).second)
        refuse_spec(fmt::format("key '{}' is given twice", key), "Give it once.");
    }
    first = false;
  }
  if (settings.values.contains("edges") && settings.values.contains("degree"))
    refuse_spec("edges and degree are both given", "Give one of them.");
  return settings;
}

/// Values of settings with their bounds checked.
class Values {
 public:
  explicit Values(Settings settings) : preset_(settings.preset), settings_(std::move(settings.values)) {}

  const Preset& preset() const { return preset_; }
  bool has(std::string_view key) const { return settings_.contains(key); }
  std::string_view text(std::string_view key) const { return settings_.find(key)->second; }

  Count count(std::string_view key, Count fallback, Count least, Count most) const {
    if (!has(key)) return fallback;
    const auto value = parsed<Count>(key);
    if (value < least || value > most)
      refuse_spec(fmt::format("{}={} is not within [{}, {}]", key, value, least, most),
                  "Choose a value within.");
    return value;
  }

  double real(std::string_view key, double fallback, double least, double most) const {
    if (!has(key)) return fallback;
    const auto value = parsed<double>(key);
    if (!(value >= least && value <= most))
      refuse_spec(fmt::format("{}={} is not within [{}, {}]", key, value, least, most),
                  "Choose a value within.");
    return value;
  }

  /// A number of nodes, or a share of them if it is written with a point.
  Count part_of(std::string_view key, double fallback, Count nodes) const {
    const bool share = !has(key) || text(key).find('.') != std::string_view::npos;
    if (!share) return count(key, 0, 0, nodes);
    // The small term keeps a preset's own numbers, because (count / nodes) * nodes may be slightly less than
    // count.
    return static_cast<Count>(std::floor(real(key, fallback, 0, 1) * static_cast<double>(nodes) + 1e-6));
  }

 private:
  template <typename T>
  T parsed(std::string_view key) const {
    const std::string_view value = text(key);
    T number{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size())
      refuse_spec(
          fmt::format("{}={} is not {}", key, value, std::is_integral_v<T> ? "an integer" : "a number"),
          "Correct the value.");
    return number;
  }

  Preset preset_;
  std::map<std::string, std::string, std::less<>> settings_;
};

constexpr std::array kKindNames = {"sbm", "rmat", "lognormal", "grid"};  // in the order of the enumeration

Kind parse_kind(std::string_view name) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end()) refuse_unknown("kind", name, {kKindNames.begin(), kKindNames.end()});
  return static_cast<Kind>(found - kKindNames.begin());
}

void check_keys_fit(const Values& values, Kind kind) {
  const char* const name = kKindNames[at(kind)];
  for (const KnownKey& key : kKeys)
    if (values.has(key.name) && key.only && *key.only != kind)
      refuse_spec(fmt::format("key '{}' has no meaning for kind={}", key.name, name), "Leave it out.");
  for (const char* const key : {"edges", "degree"})
    if (kind == Kind::grid && values.has(key))
      refuse_spec(fmt::format("key '{}' has no meaning for kind=grid", key), "Leave it out.");
}

DType parse_feature_type(std::string_view name) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    if (name == name_of(type)) return type;
  refuse_unknown("dtype", name, {"f32", "f16", "bf16"});
}

// in the order of the enumeration
constexpr std::array kWeightNames = {"none", "uniform", "lognormal", "half-normal"};

SyntheticSpec::Weights parse_weights(std::string_view name) {
  const auto found = std::find(kWeightNames.begin(), kWeightNames.end(), name);
  if (found == kWeightNames.end())
    refuse_unknown("weights", name, {kWeightNames.begin(), kWeightNames.end()});
  return static_cast<SyntheticSpec::Weights>(found - kWeightNames.begin());
}

void read_structure(const Values& values, SyntheticSpec& spec) {
  spec.nodes = values.count("nodes", values.preset().nodes, 1, kMostNodes);
  const auto nodes = static_cast<double>(spec.nodes);
  const double degree = values.real("degree", std::min(values.preset().degree(), nodes), 0, nodes);
  spec.edges = values.count("edges", std::llround(degree * nodes), 0, kMostEdges);
  if (static_cast<double>(spec.edges) > nodes * nodes)
    refuse_spec(fmt::format("{} edges among {} nodes: more than all pairs", spec.edges, spec.nodes),
                "Ask for fewer edges.");
  spec.homophily = values.real("homophily", spec.homophily, 0, 1);
  spec.sigma = values.real("sigma", spec.sigma, 0, 4);
  spec.a = values.real("a", spec.a, 0, 1);
  spec.b = values.real("b", spec.b, 0, 1);
  spec.c = values.real("c", spec.c, 0, 1);
  if (spec.a + spec.b + spec.c > 1)
    refuse_spec(fmt::format("a + b + c = {} is above 1", spec.a + spec.b + spec.c),
                "The fourth quadrant gets the rest.");
  const auto side = static_cast<Count>(std::ceil(std::sqrt(nodes)));
  spec.width = values.count("width", side, 1, spec.nodes);
}

void read_splits(const Values& values, SyntheticSpec& spec) {
  spec.train = values.part_of("train", values.preset().share(values.preset().train), spec.nodes);
  spec.valid = values.part_of("valid", values.preset().share(values.preset().valid), spec.nodes);
  spec.test = values.part_of("test", values.preset().share(values.preset().test), spec.nodes);
  if (spec.train + spec.valid + spec.test > spec.nodes)
    refuse_spec(fmt::format("train {} + valid {} + test {} are more than {} nodes", spec.train, spec.valid,
                            spec.test, spec.nodes),
                "Lower them; a share is written with a point, as train=0.1.");
}

}  // namespace

std::string synthetic_name(const SyntheticSpec& spec) {
  return fmt::format("synthetic-{}", kKindNames[at(spec.kind)]);
}

std::string digest_of(const SyntheticSpec& s) {
  const std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", synthetic_name(s), s.nodes,
                  s.edges, s.features, s.classes, name_of(s.dtype), static_cast<int>(s.weights), s.train,
                  s.valid, s.test, s.seed, s.noise, s.homophily, s.sigma, s.a, s.b, s.c, s.width);
  return hex64(hash_bytes(text.data(), text.size()));
}

SyntheticSpec parse_synthetic(std::string_view text) {
  const Values values(parse_settings(text));
  SyntheticSpec spec;
  spec.kind = values.has("kind") ? parse_kind(values.text("kind")) : values.preset().kind;
  check_keys_fit(values, spec.kind);
  if (values.has("dtype")) spec.dtype = parse_feature_type(values.text("dtype"));
  if (values.has("weights")) spec.weights = parse_weights(values.text("weights"));
  read_structure(values, spec);
  spec.features = values.count("features", values.preset().features, 0, 1 << 20);
  spec.classes = values.count("classes", std::min(values.preset().classes, spec.nodes), 1,
                              std::min<Count>(spec.nodes, 1 << 20));
  spec.noise = values.real("noise", spec.noise, 0, 1e6);
  spec.seed = static_cast<std::uint64_t>(values.count("seed", 0, 0, INT64_MAX));
  read_splits(values, spec);
  return spec;
}

}  // namespace strata::graph
