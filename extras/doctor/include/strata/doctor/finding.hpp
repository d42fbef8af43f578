// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "strata/util/text.hpp"

namespace strata::doctor {

enum class Level : std::uint8_t {
  note,     ///< worth knowing; a run is as good as it can be
  warning,  ///< a run would be slower than it need be, or fail later
  failure,  ///< a run would fail
};

/// The remedy for a finding; its name is a heading of docs/troubleshooting.md.
enum class Remedy : std::uint8_t {
  versions,
  silence,
  oversubscription,
  busy_processors,
  binding,
  memory,
  shared_gpu,
  unused_gpu,
  locked_memory,
  open_files,
  shared_memory,
  containers,
  huge_pages,
  overcommit,
  transparent_huge_pages,
  part_folder,
  storage,
  disk_space,
  slow_link,
  network,
  clocks,
  numa,
  gpu_links,
  gpu_errors,
  gpu_clocks,
  nccl,
  plan,
  left_out,
};

struct Finding {
  Level level = Level::note;
  std::string check = {};    ///< that found it: "limits"
  std::string host = {};     ///< that it is about; empty: all, or several that the message names
  std::string message = {};  ///< with numbers
  std::string action = {};   ///< what to do, in a sentence
  Remedy remedy = Remedy::left_out;
};

/// The page that explains the remedy: "docs/troubleshooting.md#locked-memory".
std::string remedy_page(Remedy remedy);

/// The exit code: 0 with only notes, 1 with warnings, 2 if a run would fail.
int exit_code(const std::vector<Finding>& findings);

}  // namespace strata::doctor

namespace strata {

template <>
inline constexpr auto enum_names<doctor::Level> =
    std::to_array<EnumName<doctor::Level>>({{doctor::Level::note, "note"},
                                            {doctor::Level::warning, "warning"},
                                            {doctor::Level::failure, "failure"}});

template <>
inline constexpr auto enum_names<doctor::Remedy> = std::to_array<EnumName<doctor::Remedy>>(
    {{doctor::Remedy::versions, "different-versions"},
     {doctor::Remedy::silence, "a-rank-that-does-not-answer"},
     {doctor::Remedy::oversubscription, "more-ranks-than-processors"},
     {doctor::Remedy::busy_processors, "busy-processors"},
     {doctor::Remedy::binding, "ranks-bound-to-few-processors"},
     {doctor::Remedy::memory, "little-memory-per-rank"},
     {doctor::Remedy::shared_gpu, "ranks-that-share-a-gpu"},
     {doctor::Remedy::unused_gpu, "gpus-that-no-rank-uses"},
     {doctor::Remedy::locked_memory, "locked-memory"},
     {doctor::Remedy::open_files, "open-files"},
     {doctor::Remedy::shared_memory, "shared-memory"},
     {doctor::Remedy::containers, "ranks-in-separate-containers"},
     {doctor::Remedy::huge_pages, "reserved-huge-pages"},
     {doctor::Remedy::overcommit, "memory-overcommit"},
     {doctor::Remedy::transparent_huge_pages, "transparent-huge-pages"},
     {doctor::Remedy::part_folder, "another-part-folder"},
     {doctor::Remedy::storage, "slow-storage"},
     {doctor::Remedy::disk_space, "room-for-the-output"},
     {doctor::Remedy::slow_link, "slow-links-between-hosts"},
     {doctor::Remedy::network, "messages-on-the-wrong-network"},
     {doctor::Remedy::clocks, "clocks-that-differ"},
     {doctor::Remedy::numa, "ranks-far-from-their-gpu"},
     {doctor::Remedy::gpu_links, "slow-links-of-gpus"},
     {doctor::Remedy::gpu_errors, "errors-of-gpus"},
     {doctor::Remedy::gpu_clocks, "gpus-that-are-held-back"},
     {doctor::Remedy::nccl, "slow-nccl"},
     {doctor::Remedy::plan, "a-plan-that-does-not-fit"},
     {doctor::Remedy::left_out, "checks-that-were-left-out"}});

}  // namespace strata
