// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/run_folder.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <system_error>

#include "strata/graph/manifest_file.hpp"
#include "strata/graph/part_file.hpp"
#include "strata/util/error.hpp"
#include "strata/util/files.hpp"

namespace strata::train {
namespace {

namespace fs = std::filesystem;

/// Files that only a run that got to its first step leaves.
constexpr std::array kResults{"metrics.jsonl", "model.safetensors", "checkpoint.safetensors",
                              "checkpoint.previous.safetensors"};
constexpr std::array kRecords{"config.toml", "train.log"};
constexpr const char* kRuns = "runs";
constexpr const char* kLast = "last";

bool has_run(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : kResults)
    if (fs::exists(folder / name, ignored)) return true;
  return false;
}

/// Whether a folder holds parts: many programs have a manifest.json, but strata-partition also a first part.
bool holds_parts(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / graph::kManifestFile, ignored) &&
         fs::exists(graph::part_path(folder, 0), ignored);
}

/// The directory of part files that the folder is, or lies in; empty if there is none.
fs::path parts_around(const fs::path& folder) {
  for (fs::path at = fs::absolute(folder).lexically_normal(); at.has_relative_path(); at = at.parent_path())
    if (holds_parts(at)) return at;
  return {};
}

void check_place(const fs::path& folder) {
  if (const fs::path parts = parts_around(folder); !parts.empty()) {
    throw InputError(
        fmt::format("--output {}: {} is a directory of part files", folder.string(), parts.string()),
        "Give the run a folder elsewhere, such as runs/first, or leave --output out.");
  }
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed || !can_write_file(folder / "train.log")) {
    throw InputError(fmt::format("--output: cannot write into {}{}", folder.string(),
                                 failed ? ": " + failed.message() : ""),
                     "Give a folder that this user may write.");
  }
}

/// The canonical name of a folder, whether it exists or not.
fs::path name_of_folder(const fs::path& folder) {
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(fs::absolute(folder, ignored), ignored);
  return whole.has_filename() ? whole : whole.parent_path();
}

/// Whether a folder appears when `of_run` is made: it is this folder, or one of those around it.
bool is_made_with(const fs::path& of_run, const fs::path& folder) {
  if (of_run.empty()) return false;
  const fs::path inner = name_of_folder(of_run), outer = name_of_folder(folder);
  return !outer.empty() && std::ranges::mismatch(inner, outer).in2 == outer.end();
}

bool is_file_of_run(const fs::path& file, const fs::path& of_run) {
  const auto is_named = [&](const char* name) { return file.filename() == name; };
  return !of_run.empty() && name_of_folder(folder_of(file)) == name_of_folder(of_run) &&
         (std::ranges::any_of(kResults, is_named) || std::ranges::any_of(kRecords, is_named));
}

/// Checks a file that is written when training has ended, maybe into the folder of the run.
void check_can_write(const char* option, const fs::path& file, const fs::path& of_run) {
  std::error_code ignored;
  if (file.empty()) return;
  if (is_file_of_run(file, of_run))
    throw InputError(fmt::format("{}: {} is a file that the run writes itself", option, file.string()),
                     "Choose another name.");
  if (can_write_file(file)) return;
  const fs::path folder = folder_of(file);
  if (!fs::exists(folder, ignored) && is_made_with(of_run, folder)) return;
  throw InputError(
      fs::is_directory(folder, ignored)
          ? fmt::format("{}: cannot write {}", option, file.string())
          : fmt::format("{}: cannot write {}: {}: no such directory", option, file.string(), folder.string()),
      "Name a file in a folder that is there and that this user may write.");
}

/// Makes runs/sage-2026-11-22-1, or the next number that is free.
fs::path make_next(const std::string& model) {
  std::error_code failed;
  fs::create_directories(kRuns, failed);
  const std::time_t now = std::time(nullptr);
  const std::string stem = fmt::format("{}-{:%Y-%m-%d}-", model, fmt::localtime(now));
  for (int number = 1;; ++number) {
    const fs::path folder = fs::path(kRuns) / (stem + std::to_string(number));
    if (fs::create_directory(folder, failed)) return folder;
    if (failed)
      throw InputError(fmt::format("cannot make the folder {}: {}", folder.string(), failed.message()),
                       "Start where this user may write, or give --output.");
  }
}

/// The run that runs/last names, within runs/; empty if there is none.
fs::path last_run() {
  std::error_code failed;
  return fs::read_symlink(fs::path(kRuns) / kLast, failed);
}

/// Makes the link runs/last, which helps people: where it cannot be made, the run goes on.
void link_last(const fs::path& run) {
  std::error_code failed;
  const fs::path link = fs::path(kRuns) / kLast, fresh = fs::path(kRuns) / (run.string() + ".link");
  if (fs::exists(link, failed) && !fs::is_symlink(link, failed)) return;
  fs::create_directory_symlink(run, fresh, failed);
  if (!failed) fs::rename(fresh, link, failed);
  if (failed) fs::remove(fresh, failed);
}

void check_run(const fs::path& folder, const TrainConfig& config) {
  if (config.resume || !has_run(folder)) return;
  if (!config.overwrite) {
    throw InputError(
        fmt::format("--output {} has a run already", folder.string()),
        fmt::format("Continue it (--resume {0}), replace it (--overwrite), or give another folder.",
                    folder.string()));
  }
}

}  // namespace

RunFolder::RunFolder(const TrainConfig& config, const comm::Communicator& communicator) {
  std::string chosen;
  communicator.together([&] {
    if (communicator.rank() > 0) return;
    take(config);
    chosen = path_.string();
  });
  communicator.broadcast(chosen, 0);
  path_ = chosen;
}

void RunFolder::take(const TrainConfig& config) {
  check_can_write("--trace", config.trace, config.output);
  std::error_code ignored;
  const bool named = !config.output.empty();
  if (config.resume && !named)
    throw InputError("--resume does not say which run goes on", "Name its folder: --resume runs/last.");
  if (named && config.resume && !fs::is_directory(config.output, ignored)) {
    throw InputError(fmt::format("--resume {}: no such directory", config.output),
                     "Give the folder of the run to continue, such as runs/last.");
  }
  const bool was_there = named && fs::exists(config.output, ignored);
  path_ = named ? fs::path(config.output) : make_next(model_name(config));
  made_here_ = !was_there;
  check_place(path_);
  lock_ = std::make_unique<OutputLock>(path_);
  check_run(path_, config);
  for (const char* name : kResults) remove_temporaries_of(path_ / name);
  fs::remove(path_ / kNewLog, ignored);  // of a run that was killed
  replaces_ = !config.resume && has_run(path_);
  if (!config.resume && !replaces_)
    for (const char* name : kRecords) fs::remove(path_ / name, ignored);
  if (!config.trace.empty()) remove_temporaries_of(config.trace);
  if (named) return;
  last_before_ = last_run();
  link_last(path_.filename());
}

void RunFolder::begin() {
  if (!replaces_) return;
  require();
  for (const char* name : kResults) fs::remove(path_ / name);
  for (const char* name : kRecords) fs::remove(path_ / name);
  fs::rename(path_ / kNewLog, path_ / kLog);
  replaces_ = false;
}

RunFolder::~RunFolder() {
  if (!lock_) return;
  std::error_code ignored;
  if (replaces_) fs::remove(path_ / kNewLog, ignored);
  const bool forget = made_here_ && !has_run(path_);
  lock_.reset();
  if (!forget) return;
  for (const char* name : kRecords) fs::remove(path_ / name, ignored);
  if (!fs::remove(path_, ignored)) return;  // there is something else in it
  if (last_run() != path_.filename()) return;
  fs::remove(fs::path(kRuns) / kLast, ignored);
  if (!last_before_.empty()) link_last(last_before_);
}

}  // namespace strata::train
