// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/util/random.hpp"
#include "strata/util/row_code.hpp"

#if !defined(__CUDA_ARCH__)
#include <bit>
#endif

/// The arithmetic of random choices, with the same bits on CPU and GPU: integers, and single IEEE operations
/// that no compiler fuses (host code is compiled without contraction; device code names the rounding).
namespace strata::sampling {

/// Random word number `index` for this key: SplitMix64, which can be read at any index.
STRATA_HOST_DEVICE inline std::uint64_t keyed_word(std::uint64_t key, std::uint64_t index) {
  return mix64(key + index * 0x9E3779B97F4A7C15ull);
}

/// floor(word * bound / 2^64): uniform in [0, bound).
STRATA_HOST_DEVICE inline std::uint64_t below(std::uint64_t word, std::uint64_t bound) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(word, bound);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(word) * bound) >> 64);
#endif
}

/// A positive float as mantissa * 2^exponent with a mantissa in [1, 2), subnormal ones too.
struct Parts {
  float mantissa;
  std::int32_t exponent;
};
STRATA_HOST_DEVICE inline Parts parts_of(float positive) {
  std::uint32_t bits = ieee::bits_of(positive);
  std::int32_t exponent = -127;
  if (bits < 0x00800000u) {
    bits = ieee::bits_of(ieee::product(positive, 0x1.0p32f));
    exponent -= 32;
  }
  return {ieee::of_bits((bits & 0x007FFFFFu) | 0x3F800000u),
          exponent + static_cast<std::int32_t>(bits >> 23)};
}

/// 2 artanh(s) for |s| <= 0.172. The relative error before rounding is at most 2e-9.
STRATA_HOST_DEVICE inline float twice_artanh(float s) {
  const float z = ieee::product(s, s);
  float series = 1.0f / 9;
  series = ieee::sum(ieee::product(series, z), 1.0f / 7);
  series = ieee::sum(ieee::product(series, z), 1.0f / 5);
  series = ieee::sum(ieee::product(series, z), 1.0f / 3);
  series = ieee::sum(ieee::product(series, z), 1.0f);
  return ieee::product(ieee::product(2.0f, s), series);
}

/// An exponential variate of mean 1: -ln(1 - v) for v = word / 2^64, above 0. Small values have all bits of a
/// float, so that even the smallest of very many variates differ.
///
/// With y = 1 - v = 2^e m, m in [1 / sqrt 2, sqrt 2), and s = (1 - m) / (1 + m), the variate is -e ln 2 + 2
/// artanh(s).
STRATA_HOST_DEVICE inline float exponential_variate(std::uint64_t word) {
  constexpr std::uint64_t kLinear = 0x4AFB0CCC06219B7Cull;  // v < 1 - 1 / sqrt 2: e is 0
  if (word < kLinear) {
    const float v = ieee::product(ieee::nearest(word | 1), 0x1.0p-64f);
    return twice_artanh(ieee::quotient(v, ieee::sum(2.0f, -v)));
  }
  const std::uint32_t y = ieee::bits_of(ieee::product(ieee::nearest(~word | 1), 0x1.0p-64f));
  const std::int32_t e = static_cast<std::int32_t>(y - 0x3F3504F3u) >> 23;  // the bits of 1 / sqrt 2
  const float m = ieee::of_bits(y - (static_cast<std::uint32_t>(e) << 23));
  const float s = ieee::quotient(ieee::sum(1.0f, -m), ieee::sum(1.0f, m));
  return ieee::sum(ieee::product(-static_cast<float>(e), 0.693147181f), twice_artanh(s));
}

/// The arrival of an edge of positive weight in the race for a node's picks: exponential_variate / weight.
/// The upper word is an integer with the same order for all positive floats, the lower word is the edge's
/// position. The first k arrivals are a weighted sample without replacement (Efraimidis and Spirakis,
/// "Weighted random sampling with a reservoir", 2006; the logarithm of their keys u^(1 / w)).
STRATA_HOST_DEVICE inline std::uint64_t arrival(std::uint64_t word, float weight, std::uint32_t position) {
  constexpr std::int32_t kBias = 192;  // variates have exponents from -64 to 5, weights from -149 to 127
  const Parts e = parts_of(exponential_variate(word)), w = parts_of(weight);
  const std::uint32_t ratio = ieee::bits_of(ieee::quotient(e.mantissa, w.mantissa));  // in (1/2, 2)
  const std::uint32_t order = ratio + (static_cast<std::uint32_t>(e.exponent - w.exponent + kBias) << 23);
  return (static_cast<std::uint64_t>(order) << 32) | position;
}
/// The quotient of an arrival. For host code.
inline double quotient_of(std::uint64_t arrival) {
  constexpr std::uint64_t kBias = 1023 - 127 - 192;  // from the exponents of arrival() to those of doubles
  const std::uint64_t order = arrival >> 32;
  return __builtin_bit_cast(double, ((order >> 23) + kBias) << 52 | (order & 0x007FFFFFu) << 29);
}

/// Stands for an edge of weight 0: later than every arrival.
inline constexpr std::uint64_t kNeverArrives = ~std::uint64_t{0};

/// Turns the weights of a list into whole numbers, whose sums do not depend on the order: floor(weight *
/// 2^shift), with the largest shift for which no sum of `degree` weights reaches 2^63. Weights that become 0
/// are less than 2^-30 of the largest. REQUIRES: largest > 0, degree < 2^32.
struct WholeWeights {
  std::int32_t shift;

  STRATA_HOST_DEVICE WholeWeights(float largest, std::uint32_t degree)
      : shift(62 - bit_width(degree) - parts_of(largest).exponent) {}

  STRATA_HOST_DEVICE std::uint64_t operator()(float weight) const {
    if (!(weight > 0)) return 0;
    const Parts parts = parts_of(weight);
    const std::uint64_t digits = (ieee::bits_of(parts.mantissa) & 0x007FFFFFu) | 0x00800000u;
    const std::int32_t left = parts.exponent + shift - 23;
    if (left >= 0) return digits << left;
    return left > -64 ? digits >> -left : 0;
  }

 private:
  STRATA_HOST_DEVICE static std::int32_t bit_width(std::uint32_t value) {
#if defined(__CUDA_ARCH__)
    return 32 - __clz(static_cast<std::int32_t>(value));
#else
    return std::bit_width(value);
#endif
  }
};

/// LABOR-0 with uniform weights (Balin and Catalyurek, "Layer-neighbor sampling", NeurIPS 2023): a node of
/// degree d takes in-neighbor t if r_t <= fanout / d, with one r_t for all nodes of a hop. So nodes that
/// share neighbors choose the same ones, and a node gets `fanout` neighbors on average.
struct LaborRule {
  std::uint64_t key;

  /// `layer_dependent`: all hops share their r_t.
  STRATA_HOST_DEVICE LaborRule(const BatchKey& batch, std::uint32_t hop, bool layer_dependent)
      : key(node_key(batch, RandomUse::source, layer_dependent ? 0 : hop, 0)) {}

  /// r_t in units of 2^-64; `source` is an ORIGINAL id.
  STRATA_HOST_DEVICE std::uint64_t of_source(std::int64_t source) const {
    return keyed_word(key, static_cast<std::uint64_t>(source));
  }

  /// A neighbor is taken if its r_t is below this limit. REQUIRES: fanout < degree < 2^32.
  STRATA_HOST_DEVICE static std::uint64_t limit(std::uint32_t fanout, std::uint32_t degree) {
    const std::uint64_t high = (static_cast<std::uint64_t>(fanout) << 32) / degree,
                        rest = (static_cast<std::uint64_t>(fanout) << 32) % degree;
    return (high << 32) | ((rest << 32) / degree);
  }
};

}  // namespace strata::sampling
