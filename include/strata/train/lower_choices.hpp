#pragma once
#include "strata/comm/machine.hpp"
#include "strata/sampling/sampler.hpp"
#include "strata/store/machine_graph.hpp"
#include "strata/util/enum_names.hpp"

/// The names by which users of training choose what lower modules offer.
namespace strata {

template <>
inline constexpr auto enum_names<comm::TopologyOptions::Compute> =
    std::to_array<EnumName<comm::TopologyOptions::Compute>>({{comm::TopologyOptions::Compute::automatic,
                                                              "auto"},
                                                             {comm::TopologyOptions::Compute::cpu, "cpu"},
                                                             {comm::TopologyOptions::Compute::cuda, "cuda"}});

template <>
inline constexpr auto enum_names<sampling::Method> =
    std::to_array<EnumName<sampling::Method>>({{sampling::Method::uniform, "uniform"},
                                               {sampling::Method::weighted, "weighted"},
                                               {sampling::Method::labor, "labor"}});

template <>
inline constexpr auto enum_names<store::HostPath> =
    std::to_array<EnumName<store::HostPath>>({{store::HostPath::automatic, "auto"},
                                              {store::HostPath::zero_copy, "zero-copy"},
                                              {store::HostPath::threads, "threads"},
                                              {store::HostPath::both, "both"},
                                              {store::HostPath::copy, "copy"}});

template <>
inline constexpr auto enum_names<store::Replication> =
    std::to_array<EnumName<store::Replication>>({{store::Replication::automatic, "auto"},
                                                 {store::Replication::on, "on"},
                                                 {store::Replication::off, "off"}});

}  // namespace strata
