// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/util/text.hpp"

namespace strata::nn {

enum class ModelKind : std::uint8_t { sage, gcn, gat, gin };
enum class Aggregate : std::uint8_t { mean, max };  ///< of the neighbors' rows, by sage

}  // namespace strata::nn

namespace strata {

template <>
inline constexpr auto enum_names<nn::ModelKind> =
    std::to_array<EnumName<nn::ModelKind>>({{nn::ModelKind::sage, "sage"},
                                            {nn::ModelKind::gcn, "gcn"},
                                            {nn::ModelKind::gat, "gat"},
                                            {nn::ModelKind::gin, "gin"}});

template <>
inline constexpr auto enum_names<nn::Aggregate> =
    std::to_array<EnumName<nn::Aggregate>>({{nn::Aggregate::mean, "mean"}, {nn::Aggregate::max, "max"}});

}  // namespace strata

namespace strata::nn {

enum class OptimizerKind : std::uint8_t {
  adam,   ///< decay is added to the gradient
  adamw,  ///< decoupled decay
  sgd,
};
enum class ScheduleKind : std::uint8_t { constant, cosine, step };  ///< see ScheduleOptions

}  // namespace strata::nn

namespace strata {

template <>
inline constexpr auto enum_names<nn::OptimizerKind> =
    std::to_array<EnumName<nn::OptimizerKind>>({{nn::OptimizerKind::adam, "adam"},
                                                {nn::OptimizerKind::adamw, "adamw"},
                                                {nn::OptimizerKind::sgd, "sgd"}});

template <>
inline constexpr auto enum_names<nn::ScheduleKind> =
    std::to_array<EnumName<nn::ScheduleKind>>({{nn::ScheduleKind::constant, "constant"},
                                               {nn::ScheduleKind::cosine, "cosine"},
                                               {nn::ScheduleKind::step, "step"}});

}  // namespace strata
