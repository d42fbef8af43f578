// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "strata/plan/forecast.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::plan {
namespace {

constexpr const char* kExample = "machines=16,gpus=8,link=400Gbit/s,latency=10us,gpu-memory=140GiB";
constexpr int kMostMachines = 1 << 16, kMostRanks = 1 << 10;

[[noreturn]] void refuse(const std::string& what) {
  throw InputError("--cluster: " + what, fmt::format("Give KEY=VALUE,... such as {}.", kExample));
}

struct Unit {
  const char* name;
  double factor;
};

/// A positive number with one of the units.
template <std::size_t N>
double with_unit(std::string_view key, std::string_view text, const std::array<Unit, N>& units) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(rest, at(text.data() + text.size() - rest));
  std::string known;
  for (const Unit& candidate : units) {
    if (error == std::errc{} && unit == candidate.name && std::isfinite(number) && number > 0)
      return number * candidate.factor;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", candidate.name);
  }
  refuse(fmt::format("{}={} is no positive number with one of the units {}", key, text, known));
}

double seconds(std::string_view key, std::string_view text) {
  return with_unit(key, text, std::to_array<Unit>({{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}));
}

double bytes_per_second(std::string_view key, std::string_view text) {
  return with_unit(
      key, text,
      std::to_array<Unit>({{"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8}, {"GB/s", 1e9}, {"MB/s", 1e6}}));
}

int whole(std::string_view key, std::string_view text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size() && number >= least && number <= most)
    return number;
  refuse(fmt::format("{}={} is no whole number from {} to {}", key, text, least, most));
}

std::int64_t memory(std::string_view key, std::string_view text) {
  try {
    if (const std::int64_t bytes = parse_bytes(text); bytes > 0) return bytes;
  } catch (const InputError&) {  // refused below, with the key
  }
  refuse(fmt::format("{}={} is no amount of memory", key, text));
}

struct Key {
  const char* name;
  std::function<void(std::string_view key, std::string_view value)> read;
};

std::vector<Key> keys_of(Cluster& c) {
  return {{"machines", [&](auto k, auto v) { c.machines = whole(k, v, 1, kMostMachines); }},
          {"gpus", [&](auto k, auto v) { c.gpus = whole(k, v, 0, kMostRanks); }},
          {"ranks", [&](auto k, auto v) { c.ranks = whole(k, v, 1, kMostRanks); }},
          {"links", [&](auto k, auto v) { c.links = whole(k, v, 1, kMostRanks); }},
          {"link", [&](auto k, auto v) { c.link.bytes_per_second = bytes_per_second(k, v); }},
          {"latency", [&](auto k, auto v) { c.link.latency_seconds = seconds(k, v); }},
          {"message", [&](auto k, auto v) { c.link.message_seconds = seconds(k, v); }},
          {"gpu-memory", [&](auto k, auto v) { c.gpu_memory = memory(k, v); }},
          {"host-memory", [&](auto k, auto v) { c.host_memory = memory(k, v); }},
          {"compute", [&](auto k, auto v) { c.compute_seconds = seconds(k, v); }},
          {"sample", [&](auto k, auto v) { c.sample_seconds = seconds(k, v); }},
          {"gather", [&](auto k, auto v) { c.gather_seconds = seconds(k, v); }},
          {"measured", [&](auto, auto v) { c.measured = v; }}};
}

/// Returns the name of its key.
std::string_view read_pair(std::string_view pair, const std::vector<Key>& keys) {
  const std::size_t equals = pair.find('=');
  if (equals == std::string_view::npos) refuse(fmt::format("'{}' has no value", pair));
  const std::string_view key = pair.substr(0, equals);
  std::vector<std::string> names;
  for (const Key& known : keys) {
    if (key == known.name) {
      known.read(key, pair.substr(equals + 1));
      return key;
    }
    names.emplace_back(known.name);
  }
  const std::string near = closest(key, names);
  refuse(fmt::format("there is no key '{}'{}", key,
                     near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

}  // namespace

Link Cluster::link_of_rank() const {
  Link mine = link;
  if (links > 0) mine.bytes_per_second *= static_cast<double>(links) / ranks_per_machine();
  return mine;
}

Cluster parse_cluster(std::string_view text) {
  Cluster cluster;
  const std::vector<Key> keys = keys_of(cluster);
  if (text.empty()) refuse("there is nothing in it");
  std::set<std::string_view> given;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view key = read_pair(text.substr(begin, end - begin), keys);
    if (!given.insert(key).second) refuse(fmt::format("'{}' is given twice", key));
    begin = end + 1;
  }
  if (cluster.has_gpus() && given.contains("ranks") && cluster.ranks != cluster.gpus)
    refuse(fmt::format("gpus={} has one rank for each GPU, and ranks={} contradicts it", cluster.gpus,
                       cluster.ranks));
  return cluster;
}

}  // namespace strata::plan
