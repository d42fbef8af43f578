// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <ranges>
#include <string_view>
#include <thread>

#include "field_in_file.hpp"
#include "strata/util/system.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(text, separator)) parts.emplace_back(part.begin(), part.end());
  return parts;
}

/// Decodes a path of mountinfo, which writes spaces and line breaks as octal numbers.
std::string decoded(std::string_view text) {
  constexpr std::size_t kDigits = 3;
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int value = 0;
    if (text[i] == '\\' && i + kDigits < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 1 + kDigits, value, 8).ec == std::errc()) {
      path += static_cast<char>(value);
      i += kDigits;
    } else {
      path += text[i];
    }
  }
  return path;
}

/// A hierarchy of control groups, as it is mounted.
struct Mount {
  std::string group;   ///< group at the mount point
  std::string folder;  ///< the mount point
  bool unified = false;
  std::vector<std::string> options;  ///< in version 1 they include the controllers

  bool has(const std::string& controller) const {
    return std::ranges::find(options, controller) != options.end();
  }
};

// 36 35 98:0 /group /mount/point rw,noatime master:1 - cgroup cgroup rw,memory
std::vector<Mount> mounts_in(const fs::path& mountinfo) {
  std::vector<Mount> mounts;
  std::ifstream file(mountinfo);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    const std::string& type = *(dash + 1);
    if (type != "cgroup" && type != "cgroup2") continue;
    mounts.push_back({.group = decoded(words[3]),
                      .folder = decoded(words[4]),
                      .unified = type == "cgroup2",
                      .options = split(*(dash + 3), ',')});
  }
  return mounts;
}

/// A line of /proc/self/cgroup: "4:memory:/some/group", or "0::/some/group" of version 2.
struct Membership {
  std::vector<std::string> controllers;
  std::string group;
};

std::vector<Membership> memberships_in(const fs::path& list) {
  std::vector<Membership> memberships;
  std::ifstream file(list);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    memberships.push_back(
        {.controllers = controllers.empty() ? std::vector<std::string>{} : split(controllers, ','),
         .group = line.substr(second + 1)});
  }
  return memberships;
}

bool serves(const Mount& mount, const Membership& membership) {
  if (membership.controllers.empty()) return mount.unified;
  return !mount.unified && std::ranges::any_of(membership.controllers, [&](const std::string& controller) {
    return (controller == "memory" || controller == "cpu") && mount.has(controller);
  });
}

/// The group's path below the mount point. None if the mount does not show the group, as in a container whose
/// own group is mounted while the kernel names it as seen from outside.
std::optional<std::string> below(const Mount& mount, const std::string& group) {
  if (group.find("/..") != std::string::npos) return std::nullopt;
  if (mount.group == "/") return group.substr(std::min<std::size_t>(1, group.size()));
  if (!group.starts_with(mount.group)) return std::nullopt;
  const std::string rest = group.substr(mount.group.size());
  if (rest.empty()) return rest;
  if (rest.front() != '/') return std::nullopt;
  return rest.substr(1);
}

/// The folders of a group and of those above it, innermost first, as far as they exist.
std::vector<fs::path> folders_of(const fs::path& mount_point, const std::string& group) {
  std::vector<fs::path> folders = {mount_point};
  for (const std::string& name : split(group, '/')) {
    if (!name.empty()) folders.push_back(folders.back() / name);
  }
  std::erase_if(folders, [](const fs::path& folder) {
    std::error_code missing;
    return !fs::is_directory(folder, missing);
  });
  std::ranges::reverse(folders);
  return folders;
}

/// Device and inode: the same in every mount and namespace of the host.
std::string name_of(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return folder.string();
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

/// The number in a file; none if the file is missing or says "max".
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

struct MemoryUse {
  std::int64_t limit, used, cache;
};

std::int64_t file_pages(const fs::path& stat, const std::string& prefix) {
  return field_in_file(stat, prefix + "active_file").value_or(0) +
         field_in_file(stat, prefix + "inactive_file").value_or(0);
}

/// The use in version 2. Above memory.high the kernel slows a group down until it hardly runs.
std::optional<MemoryUse> use_of_unified(const fs::path& group) {
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  for (const char* file : {"memory.max", "memory.high"})
    limit = std::min(limit, number_in(group / file).value_or(limit));
  if (limit == std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return MemoryUse{limit, number_in(group / "memory.current").value_or(0),
                   file_pages(group / "memory.stat", "")};
}

/// The use in version 1, where a number near the largest means no limit, and groups that are not visible may
/// have a limit, too.
std::optional<MemoryUse> use_of_v1(const fs::path& group) {
  constexpr std::int64_t kNone = std::int64_t{1} << 60;
  const std::int64_t limit =
      std::min(number_in(group / "memory.limit_in_bytes").value_or(kNone),
               field_in_file(group / "memory.stat", "hierarchical_memory_limit").value_or(kNone));
  if (limit < 0 || limit >= kNone) return std::nullopt;
  return MemoryUse{limit, number_in(group / "memory.usage_in_bytes").value_or(0),
                   file_pages(group / "memory.stat", "total_")};
}

std::optional<double> quota_of(const fs::path& group) {
  double quota = 0, period = 0;
  std::ifstream unified(group / "cpu.max");
  if (unified >> quota >> period && quota > 0 && period > 0) return quota / period;
  quota = static_cast<double>(number_in(group / "cpu.cfs_quota_us").value_or(0));
  period = static_cast<double>(number_in(group / "cpu.cfs_period_us").value_or(0));
  if (quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

/// "0-3,8,10-11"
std::vector<int> numbers_of(std::string_view list) {
  std::vector<int> numbers;
  for (const std::string& range : split(list, ',')) {
    int first = 0, last = 0;
    const char* const end = range.data() + range.size();
    const auto [next, error] = std::from_chars(range.data(), end, first);
    if (error != std::errc()) continue;
    last = first;
    if (next != end && *next == '-') std::from_chars(next + 1, end, last);
    for (int number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

HostLimits::HostLimits(const fs::path& root) : root_(root) {
  const fs::path self = root_ / "proc/self";
  const std::vector<Mount> mounts = mounts_in(self / "mountinfo");
  for (const Membership& membership : memberships_in(self / "cgroup")) {
    const Mount* chosen = nullptr;  // a mount that shows the group, else any
    for (const Mount& mount : mounts) {
      if (!serves(mount, membership)) continue;
      if (chosen == nullptr || (!below(*chosen, membership.group) && below(mount, membership.group)))
        chosen = &mount;
    }
    if (chosen == nullptr) continue;
    const fs::path mount_point = root_ / fs::path(chosen->folder).relative_path();
    for (const fs::path& folder : folders_of(mount_point, below(*chosen, membership.group).value_or(""))) {
      const std::string name = name_of(folder);
      if (std::ranges::find(names_, name) != names_.end()) continue;
      folders_.push_back(folder);
      names_.push_back(name);
    }
  }
}

// sched_getaffinity is not used, because its mask is too short for hosts with many processors, and the
// calling thread may have a mask of its own.
std::vector<int> HostLimits::processors() const {
  std::ifstream file(root_ / "proc/self/status");
  for (std::string word; file >> word;) {
    if (word == "Cpus_allowed_list:" && file >> word) return numbers_of(word);
  }
  std::vector<int> all;
  for (unsigned core = 0; core < std::max(1u, std::thread::hardware_concurrency()); ++core)
    all.push_back(static_cast<int>(core));
  return all;
}

std::vector<HostLimits::CpuQuota> HostLimits::cpu_quotas() const {
  std::vector<CpuQuota> quotas;
  for (std::size_t i = 0; i < folders_.size(); ++i) {
    if (const auto cores = quota_of(folders_[i])) quotas.push_back({names_[i], *cores});
  }
  return quotas;
}

std::vector<HostLimits::FreeMemory> HostLimits::free_memory() const {
  std::vector<FreeMemory> free;
  constexpr std::int64_t kKib = 1024;
  if (const auto available = field_in_file(root_ / "proc/meminfo", "MemAvailable:"))
    free.push_back({"", *available * kKib});
  for (std::size_t i = 0; i < folders_.size(); ++i) {
    for (const auto& use : {use_of_unified(folders_[i]), use_of_v1(folders_[i])}) {
      if (!use) continue;
      free.push_back(
          {names_[i], std::clamp<std::int64_t>(use->limit - use->used + use->cache, 0, use->limit)});
    }
  }
  return free;
}

std::int64_t HostLimits::free_bytes() const {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const FreeMemory& free : free_memory()) least = std::min(least, free.bytes);
  return least;
}

int HostLimits::cores() const {
  auto cores = static_cast<double>(processors().size());
  for (const CpuQuota& quota : cpu_quotas()) cores = std::min(cores, quota.cores);
  return std::max(1, static_cast<int>(cores));
}

}  // namespace strata
