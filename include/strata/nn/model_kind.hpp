// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/util/enum_names.hpp"

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
