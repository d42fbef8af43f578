// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/nn/optimizer_kind.hpp"
#include "strata/util/enum_names.hpp"
#include "strata/util/types.hpp"

/// The choices of a training run, by the names that users know.
namespace strata::train {

using nn::OptimizerKind;
using nn::ScheduleKind;
/// The change of the learning rate after the warm-up.
struct LrSchedule {
  ScheduleKind kind = ScheduleKind::constant;
  Count step_size = 1000;  ///< for `step`: updates between two changes
  double gamma = 0.1;      ///< for `step`: the factor of each change
};
/// The method of sampling, and for LABOR whether layers share their random numbers.
enum class SamplerKind : std::uint8_t { uniform, weighted, labor, labor_dependent };
enum class LossKind : std::uint8_t {
  cross_entropy,
  bce,  ///< every class against the others
};
enum class Metric : std::uint8_t { accuracy, macro_f1, roc_auc };  ///< see Scores
enum class OnNan : std::uint8_t {
  stop,
  skip,  ///< skip that update
};
enum class Precision : std::uint8_t {
  f32,
  tf32,  ///< matrix products on GPUs
  bf16,  ///< activations and matrix products; see nn::ModelOptions
};
/// Precision of feature rows on their way between machines; they are f32 where they are read.
enum class RowPrecision : std::uint8_t { f32, bf16 };
enum class CudaGraphs : std::uint8_t {
  automatic,  ///< if they are possible
  on,         ///< required: else the run is refused
  off,
};

}  // namespace strata::train

namespace strata {

template <>
inline constexpr auto enum_names<train::SamplerKind> =
    std::to_array<EnumName<train::SamplerKind>>({{train::SamplerKind::uniform, "uniform"},
                                                 {train::SamplerKind::weighted, "weighted"},
                                                 {train::SamplerKind::labor, "labor"},
                                                 {train::SamplerKind::labor_dependent, "labor-dependent"}});

template <>
inline constexpr auto enum_names<train::LossKind> = std::to_array<EnumName<train::LossKind>>(
    {{train::LossKind::cross_entropy, "cross-entropy"}, {train::LossKind::bce, "bce"}});

template <>
inline constexpr auto enum_names<train::Metric> =
    std::to_array<EnumName<train::Metric>>({{train::Metric::accuracy, "accuracy"},
                                            {train::Metric::macro_f1, "macro_f1"},
                                            {train::Metric::roc_auc, "roc_auc"}});

template <>
inline constexpr auto enum_names<train::OnNan> =
    std::to_array<EnumName<train::OnNan>>({{train::OnNan::stop, "stop"}, {train::OnNan::skip, "skip"}});

template <>
inline constexpr auto enum_names<train::Precision> = std::to_array<EnumName<train::Precision>>(
    {{train::Precision::f32, "f32"}, {train::Precision::tf32, "tf32"}, {train::Precision::bf16, "bf16"}});

template <>
inline constexpr auto enum_names<train::RowPrecision> = std::to_array<EnumName<train::RowPrecision>>(
    {{train::RowPrecision::f32, "f32"}, {train::RowPrecision::bf16, "bf16"}});

template <>
inline constexpr auto enum_names<train::CudaGraphs> = std::to_array<EnumName<train::CudaGraphs>>(
    {{train::CudaGraphs::automatic, "auto"}, {train::CudaGraphs::on, "on"}, {train::CudaGraphs::off, "off"}});

}  // namespace strata
