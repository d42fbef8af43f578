// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "strata/util/text.hpp"

namespace strata::nn {

enum class ModelKind : std::uint8_t {
  sage,
  gcn,
  gat,
  gin,
  rgcn,   ///< this and those below take graphs of several types
  rsage,  ///< a sage for each relation, summed
  rgat,   ///< a gat for each relation, summed
  hgt,    ///< heterogeneous graph transformer
  none,   ///< no layers: the input rows are the outputs
};
/// Whether a model's layers take graphs of several types of nodes and edges.
constexpr bool takes_types(ModelKind kind) { return kind >= ModelKind::rgcn; }
/// The score of an edge, from the rows of its ends; see Decoder.
enum class DecoderKind : std::uint8_t { automatic, dot, distmult, complex, rotate, transe, mlp };
/// Whether a model's layers have attention heads.
constexpr bool has_heads(ModelKind kind) {
  return kind == ModelKind::gat || kind == ModelKind::rgat || kind == ModelKind::hgt;
}
enum class Aggregate : std::uint8_t { mean, max };  ///< of the neighbors' rows, by sage

}  // namespace strata::nn

namespace strata {

template <>
inline constexpr auto enum_names<nn::ModelKind> =
    std::to_array<EnumName<nn::ModelKind>>({{nn::ModelKind::sage, "sage"},
                                            {nn::ModelKind::gcn, "gcn"},
                                            {nn::ModelKind::gat, "gat"},
                                            {nn::ModelKind::gin, "gin"},
                                            {nn::ModelKind::rgcn, "rgcn"},
                                            {nn::ModelKind::rsage, "rsage"},
                                            {nn::ModelKind::rgat, "rgat"},
                                            {nn::ModelKind::hgt, "hgt"},
                                            {nn::ModelKind::none, "none"}});

template <>
inline constexpr auto enum_names<nn::DecoderKind> =
    std::to_array<EnumName<nn::DecoderKind>>({{nn::DecoderKind::automatic, "auto"},
                                              {nn::DecoderKind::dot, "dot"},
                                              {nn::DecoderKind::distmult, "distmult"},
                                              {nn::DecoderKind::complex, "complex"},
                                              {nn::DecoderKind::rotate, "rotate"},
                                              {nn::DecoderKind::transe, "transe"},
                                              {nn::DecoderKind::mlp, "mlp"}});

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
