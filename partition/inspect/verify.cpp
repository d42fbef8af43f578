// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "inspect/verify_contents.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/partition/inspect.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/log.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"
#include "strata/util/threads.hpp"

namespace strata::partition {
namespace fs = std::filesystem;
namespace {

/// Files that the manifest does not name. Symbolic links count as what they point to.
std::vector<Problem> find_extra_files(const fs::path& directory, const graph::PartitionRecord& record) {
  std::vector<Problem> problems;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    const bool known =
        name == graph::kManifestFile || std::any_of(record.parts.begin(), record.parts.end(),
                                                    [&](const auto& part) { return part.file == name; });
    if (!known) problems.push_back({name, "", "is not part of the partition"});
  }
  std::sort(problems.begin(), problems.end(),
            [](const Problem& a, const Problem& b) { return a.file < b.file; });
  return problems;
}

/// The differences between a part and its record in the manifest.
std::vector<Problem> compare(const graph::PartRecord& found, const graph::PartRecord& stored) {
  std::vector<Problem> problems;
  for (const graph::DatasetRecord& dataset : stored.datasets) {
    const auto same =
        std::find(found.datasets.begin(), found.datasets.end(), dataset) != found.datasets.end();
    if (!same)
      problems.push_back(
          {stored.file, dataset.name, fmt::format("was changed: its XXH3 is not {}", hex64(dataset.hash))});
  }
  if (problems.empty() && found.datasets.size() != stored.datasets.size()) {
    problems.push_back({stored.file, "", "has other datasets than the manifest lists"});
  }
  if (problems.empty() && found.hash != stored.hash) {
    problems.push_back({stored.file, "",
                        fmt::format("bytes outside the datasets were changed: its XXH3 is {}, not {}",
                                    hex64(found.hash), hex64(stored.hash))});
  }
  return problems;
}

std::vector<Problem> check_part_bytes(const fs::path& directory, const graph::PartitionRecord& record,
                                      int part, ProgressBar& progress) {
  const graph::PartRecord& stored = record.parts[at(part)];
  std::error_code code;
  const auto bytes = static_cast<Count>(fs::file_size(directory / stored.file, code));
  if (code) return {{stored.file, "", "is missing: " + code.message()}};
  if (bytes != stored.bytes)
    return {{stored.file, "", fmt::format("has {} bytes, written were {}", bytes, stored.bytes)}};
  try {
    const auto read = [&progress](Count more) { progress.advance(more); };
    return compare(graph::hash_part(directory, record.manifest, part, read), stored);
  } catch (const Error& error) {
    return {{stored.file, "", error.what()}};
  }
}

Count bytes_of(const graph::PartitionRecord& record) {
  Count bytes = 0;
  for (const graph::PartRecord& part : record.parts) bytes += part.bytes;
  return bytes;
}

std::vector<Problem> check_bytes(const fs::path& directory, const graph::PartitionRecord& record,
                                 ThreadPool& pool) {
  std::vector<std::vector<Problem>> by_part(record.parts.size());
  ProgressBar progress{"check bytes", bytes_of(record), "bytes"};
  pool.parallel_for(static_cast<Count>(record.parts.size()), 1, [&](Count begin, Count end) {
    for (Count p = begin; p < end; ++p)
      by_part[at(p)] = check_part_bytes(directory, record, static_cast<int>(p), progress);
  });
  std::vector<Problem> problems;
  for (const auto& part : by_part) problems.insert(problems.end(), part.begin(), part.end());
  return problems;
}

void check_memory(const graph::PartitionRecord& record, int num_threads) {
  const std::int64_t wanted = verify_bytes(record, num_threads), free = available_host_bytes();
  if (wanted <= free) return;
  throw OutOfMemory(fmt::format("no room to verify {} nodes with {} threads: wanted {}, free {}",
                                format_count(record.manifest.book.num_nodes()), num_threads,
                                format_bytes(wanted), format_bytes(free)),
                    "Give fewer --threads, or use a host with more memory.");
}

/// Whether there is any file of a partition; missing ones are problems.
bool has_files_of_parts(const fs::path& directory) {
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    if (const std::string name = entry.path().filename().string();
        name == graph::kManifestFile || (name.starts_with("part-") && name.ends_with(".h5")))
      return true;
  return false;
}

}  // namespace

std::vector<Problem> verify(const fs::path& directory, int num_threads) {
  std::error_code code;
  if (!fs::is_directory(directory, code)) {
    throw InputError(fmt::format("{}: no such directory", directory.string()),
                     "Name a directory that strata-partition build wrote.");
  }
  if (!has_files_of_parts(directory))
    throw InputError(fmt::format("{}: not a partition directory: it has neither a {} nor parts",
                                 directory.string(), graph::kManifestFile),
                     "Name a directory that strata-partition build wrote.");
  graph::PartitionRecord record;
  try {
    record = graph::read_partition_record(directory);
  } catch (const InputError& error) {
    return {{graph::kManifestFile, "", error.what()}};
  }
  ThreadPool pool{num_threads};
  check_memory(record, pool.num_threads());
  std::vector<Problem> problems = find_extra_files(directory, record);
  const std::vector<Problem> bytes = check_bytes(directory, record, pool);
  problems.insert(problems.end(), bytes.begin(), bytes.end());
  if (!bytes.empty()) return problems;
  const std::vector<Problem> contents = verify_contents(directory, record, pool);
  problems.insert(problems.end(), contents.begin(), contents.end());
  return problems;
}

std::string verify_text(const fs::path& directory, const std::vector<Problem>& problems) {
  if (problems.empty())
    return fmt::format("{}: every byte and every invariant is as it should be\n", directory.string());
  std::string text;
  for (const Problem& p : problems) {
    text += fmt::format("{}{}{}: {}\n", p.file, p.dataset.empty() ? "" : ": ", p.dataset, p.message);
  }
  return text + fmt::format("{}: {} found\n", directory.string(), counted(std::ssize(problems), "problem"));
}

std::string verify_json(const fs::path& directory, const std::vector<Problem>& problems) {
  nlohmann::ordered_json json{{"directory", directory.string()},
                              {"ok", problems.empty()},
                              {"problems", nlohmann::ordered_json::array()}};
  for (const Problem& p : problems) {
    json["problems"].push_back({{"file", p.file}, {"dataset", p.dataset}, {"message", p.message}});
  }
  return json.dump(2) + "\n";
}

}  // namespace strata::partition
