// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "strata/plan/placement.hpp"
#include "strata/util/error.hpp"
#include "strata/util/text.hpp"

namespace strata::plan {
namespace {

using Mode = PlacementRequest::Mode;
using Shares = PlacementRequest::Shares;

struct NamedMode {
  std::string_view name;
  Mode mode;
};
constexpr std::array kModes = {NamedMode{"auto", Mode::automatic}, NamedMode{"host", Mode::host},
                               NamedMode{"replicate", Mode::replicate}, NamedMode{"stripe", Mode::stripe},
                               NamedMode{"in-order", Mode::in_order}};
constexpr std::string_view kFeatures = "features";
constexpr std::array<std::string_view, 5> kTensors = {kFeatures, "indptr", "indices", "original-ids",
                                                      "in-degrees"};
constexpr double kAll = 100;
using enum tensor::Stratum;

constexpr const char* kRemedy =
    "Give auto, host, replicate, stripe, in-order, or the percent of a tensor's rows to replicate / stripe / "
    "leave on the host, such as features=10/40/50,indices=100/0/0.";

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw InputError(fmt::format("--placement: \"{}\" {}", text, why), kRemedy);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    pieces.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return pieces;
    begin = end + 1;
  }
}

double parse_percent(std::string_view text) {
  std::string_view digits = text;
  if (digits.ends_with('%')) digits.remove_suffix(1);
  double value = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failed != std::errc{} || end != digits.data() + digits.size() || !(value >= 0 && value <= kAll)) {
    refuse(text, "is no percentage");
  }
  return value;
}

Shares parse_shares(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) refuse(text, "is no placement");
  Shares shares{.tensor = std::string(text.substr(0, equals))};
  std::ranges::replace(shares.tensor, '_', '-');
  if (std::ranges::find(kTensors, shares.tensor) == kTensors.end()) {
    refuse(text, fmt::format("names no tensor; there are {}", fmt::join(kTensors, ", ")));
  }
  const std::vector<std::string_view> percents = split(text.substr(equals + 1), '/');
  if (percents.size() != tensor::kGpuStrata)
    refuse(text, fmt::format("has {} shares instead of {}", percents.size(), tensor::kGpuStrata));
  for (std::size_t s = 0; s < percents.size(); ++s)
    shares.percent[tensor::kStrata[s]] = parse_percent(percents[s]);
  const double sum = shares.percent.sum();
  if (std::abs(sum - kAll) > 1e-6) refuse(text, fmt::format("adds up to {} percent", sum));
  return shares;
}

/// The name in --placement of a demand whose own name is written for people: "original ids".
std::string option_name(std::string name) {
  std::ranges::replace(name, ' ', '-');
  return name;
}

tensor::Placement placement_of(const Shares& shares, const TensorDemand& demand, const PlanLimits& limits) {
  tensor::Placement placement{.segments = {}, .stripe_rows = limits.stripe_rows};
  for (const HeatCurve& curve : demand.segments) {
    const auto rows = static_cast<double>(curve.rows());
    const Count copies = std::llround(shares.percent[replicated] / kAll * rows);
    const Count left =
        std::min(curve.rows() - copies, Count{std::llround(shares.percent[host] / kAll * rows)});
    placement.segments.push_back(
        {{replicated, copies}, {striped, curve.rows() - copies - left}, {host, left}});
  }
  return placement;
}

std::vector<Shares> shares_of(const PlacementRequest& request, std::span<const TensorDemand> demands) {
  if (request.mode == Mode::shares) return request.shares;
  std::vector<Shares> shares;
  for (const TensorDemand& demand : demands) {
    const std::string name = option_name(demand.name);
    if (request.mode == Mode::host) shares.push_back({.tensor = name, .percent = {{host, kAll}}});
    if (request.mode == Mode::replicate) shares.push_back({.tensor = name, .percent = {{replicated, kAll}}});
    if (request.mode == Mode::stripe && name == kFeatures)
      shares.push_back({.tensor = name, .percent = {{striped, kAll}}});
  }
  return shares;
}

void check(const PlacementRequest& request, const Shares& shares, const TensorDemand& demand,
           const PlanLimits& limits) {
  if (demand.whole && !demand.divisible && shares.percent[replicated] != kAll &&
      shares.percent[host] != kAll) {
    throw InputError(
        fmt::format("--placement: {} can be replicated or left on the host as a whole only", demand.name),
        fmt::format("Give {0}=100/0/0 or {0}=0/0/100.", option_name(demand.name)));
  }
  if (limits.num_gpus == 0 && shares.percent[host] != kAll) {
    throw InputError(
        fmt::format("--placement {}: the ranks compute on the cpu, and there is no GPU to hold {}",
                    request.text(), demand.name),
        "Leave --placement out, or run with --device cuda on a host with GPUs.");
  }
}

/// Puts as many rows of each segment on the GPUs as have room there in `bytes`, over all GPUs where they
/// reach each other.
tensor::Placement placement_within(std::int64_t bytes, const TensorDemand& demand, const PlanLimits& limits) {
  const bool stripes = limits.num_gpus > 1 && demand.rates[striped].bytes_per_second > 0;
  const bool divisible = !demand.whole || demand.divisible;
  const Count all = demand.rows();
  const auto bytes_with = [&](double percent) {
    const Shares shares{.tensor = demand.name,
                        .percent = {{stripes ? striped : replicated, percent}, {host, kAll - percent}}};
    tensor::Placement placement = placement_of(shares, demand, limits);
    const std::int64_t used = estimate(std::span(&demand, 1), {placement}, limits).gpu_bytes;
    return std::pair(std::move(placement), used);
  };
  if (auto [whole, used] = bytes_with(kAll); used <= bytes) return whole;
  if (all == 0 || !divisible) return bytes_with(0).first;
  double fits = 0, exceeds = kAll;
  constexpr int kSteps = 40;
  for (int step = 0; step < kSteps; ++step) {
    const double percent = (fits + exceeds) / 2;
    (bytes_with(percent).second <= bytes ? fits : exceeds) = percent;
  }
  return bytes_with(fits).first;
}

/// The order of Dist-GPU-sampling's caches. Weights of edges lie with the indices here.
constexpr std::array<std::string_view, 5> kOrder = {kFeatures, "indices", "indptr", "original-ids",
                                                    "in-degrees"};

void fix_in_order(const PlanLimits& limits, std::span<TensorDemand> demands) {
  PlanLimits unlimited = limits;
  unlimited.gpu_bytes = std::numeric_limits<std::int64_t>::max();
  std::int64_t room = limits.gpu_bytes;
  for (const std::string_view name : kOrder) {
    for (TensorDemand& demand : demands) {
      if (option_name(demand.name) != name) continue;
      tensor::Placement placement = placement_within(room, demand, unlimited);
      room -= estimate(std::span(&demand, 1), {placement}, unlimited).gpu_bytes;
      demand.fixed = std::move(placement);
    }
  }
}

}  // namespace

std::string PlacementRequest::text() const {
  if (mode != Mode::shares) return std::string(std::ranges::find(kModes, mode, &NamedMode::mode)->name);
  std::string text;
  for (const Shares& s : shares) {
    const auto percents = std::span(s.percent.begin(), tensor::kGpuStrata);
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", s.tensor, fmt::join(percents, "/"));
  }
  return text;
}

PlacementRequest parse_placement(std::string_view text) {
  const auto* named = std::ranges::find(kModes, text, &NamedMode::name);
  if (named != kModes.end()) return {.mode = named->mode, .shares = {}};
  PlacementRequest request{.mode = Mode::shares, .shares = {}};
  for (const std::string_view piece : split(text, ',')) {
    Shares shares = parse_shares(piece);
    if (std::ranges::find(request.shares, shares.tensor, &Shares::tensor) != request.shares.end()) {
      refuse(text, fmt::format("names {} twice", shares.tensor));
    }
    request.shares.push_back(std::move(shares));
  }
  return request;
}

void fix_placements(const PlacementRequest& request, const PlanLimits& limits,
                    std::span<TensorDemand> demands) {
  if (request.mode == Mode::in_order && limits.num_gpus > 0) return fix_in_order(limits, demands);
  for (const Shares& shares : shares_of(request, demands)) {
    for (TensorDemand& demand : demands) {
      if (option_name(demand.name) != shares.tensor) continue;
      check(request, shares, demand, limits);
      demand.fixed = placement_of(shares, demand, limits);
    }
  }
}

}  // namespace strata::plan
