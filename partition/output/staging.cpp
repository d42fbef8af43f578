// SPDX-License-Identifier: Apache-2.0
#include "output/staging.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "strata/graph/manifest_file.hpp"
#include "strata/util/files.hpp"

namespace strata::partition {
namespace fs = std::filesystem;
namespace {

/// "out/" and "out" are the same directory; rename needs the latter.
fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

bool belongs_to_partition(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == graph::kManifestFile || (name.starts_with("part-") && name.ends_with(".h5"));
}

fs::path make_temporary(const fs::path& output) {
  std::string name =
      (folder_of(output) / ("." + output.filename().string() + graph::kStagingInfix + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) {
    throw InputError(fmt::format("{}: no directory can be made there: {}", folder_of(output).string(),
                                 std::strerror(errno)),
                     "Choose an --output whose folder exists and can be written.");
  }
  chmod(name.c_str(), 0755);  // mkdtemp gives access only to the owner
  return name;
}

int rename_flags(const fs::path& from, const fs::path& to, unsigned flags) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

[[noreturn]] void fail(const fs::path& from, const fs::path& to, int error) {
  throw IoError(fmt::format("{}: rename to {} failed: {}", from.string(), to.string(), std::strerror(error)));
}

int rename_error(const fs::path& from, const fs::path& to) {
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

/// If a build was killed between two renames, the folder that it set aside gets its name back.
void recover_set_aside(const fs::path& output) {
  std::error_code code;
  if (fs::exists(fs::symlink_status(output, code))) return;
  const fs::path aside = graph::find_set_aside(output);
  if (aside.empty()) return;
  if (const int error = rename_error(aside, output); error != 0) fail(aside, output, error);
  spdlog::warn("{} was missing: a build was killed while it replaced it; its old parts are back, from {}",
               output.string(), aside.string());
}

/// Whether a folder can be made in this one, which access() says of root everywhere. Sets errno if not.
bool can_be_written(const fs::path& folder) {
  std::string name = (folder / ".strata-try-XXXXXX").string();
  return access(folder.c_str(), W_OK | X_OK) == 0 && mkdtemp(name.data()) != nullptr &&
         rmdir(name.c_str()) == 0;
}

}  // namespace

void refuse_output(const fs::path& given, const Existing& existing) {
  const std::string named = existing.name + given.string();
  const fs::path output = without_slash(given);
  if (output.empty() || output.filename() == "." || output.filename() == "..") {
    throw InputError(named + " names no directory of its own", "Name a new directory.");
  }
  std::error_code code;
  if (!fs::is_directory(folder_of(output), code)) {
    throw InputError(fmt::format("{}: the folder {} does not exist", named, folder_of(output).string()),
                     "Make it first (mkdir -p).");
  }
  if (!can_be_written(folder_of(output))) {
    throw InputError(fmt::format("{}: the folder {} cannot be written: {}", named, folder_of(output).string(),
                                 std::strerror(errno)),
                     "Choose another folder.");
  }
  recover_set_aside(output);
  const fs::file_status status = fs::symlink_status(output, code);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status))
    throw InputError(named + " exists and is no directory", "Choose another name.");
  for (const fs::directory_entry& entry : fs::directory_iterator(output)) {
    if (!existing.can_replace)
      throw InputError(fmt::format("{} exists and is not empty", named),
                       "Choose another name, or remove the directory yourself.");
    if (!belongs_to_partition(entry.path())) {
      throw InputError(fmt::format("{} exists and holds {}, which is no part of a partition", named,
                                   entry.path().filename().string()),
                       "Choose another name, or remove the directory yourself.");
    }
    if (!existing.replace)
      throw InputError(named + " exists", "Choose another name, or give --force to replace it.");
  }
}

StagingDirectory::StagingDirectory(fs::path output, Existing existing, StopFlag& stop)
    : output_{without_slash(output)}, existing_{existing}, stop_{stop} {
  refuse_output(output_, existing_);
  remove_leftovers(output_);
  stop_.set_cleanup_needed(true);
  stop_.check();
  try {
    path_ = make_temporary(output_);
    mark_.emplace(path_);
  } catch (...) {
    stop_.set_cleanup_needed(false);
    throw;
  }
}

StagingDirectory::~StagingDirectory() {
  std::error_code code;
  if (!path_.empty()) {
    // This goes first, so that a partly deleted folder is not taken for parts that were set aside.
    fs::remove(path_ / graph::kManifestFile, code);
    fs::remove_all(path_, code);
  }
  stop_.set_cleanup_needed(false);
}

void StagingDirectory::publish() {
  sync_to_disk(path_);
  refuse_output(output_, existing_);  // it may have appeared meanwhile
  std::error_code code;
  const bool replaces = existing_.replace && fs::exists(output_, code) && !fs::is_empty(output_, code);
  if (!replaces) {
    if (const int error = rename_error(path_, output_); error != 0) fail(path_, output_, error);
    path_.clear();
  } else if (rename_flags(path_, output_, RENAME_EXCHANGE) != 0) {
    replace_in_two_steps();
  }  // path_ names what was replaced, which the destructor removes
  sync_to_disk(folder_of(output_));
}

/// On file systems that cannot exchange two folders (NFS, Lustre), the old folder is set aside first. If the
/// build is killed before the new folder has its name, the next start finds the old one by its temporary
/// name.
void StagingDirectory::replace_in_two_steps() {
  const fs::path aside = path_.string() + graph::kSetAsideSuffix;
  if (const int error = rename_error(output_, aside); error != 0) fail(output_, aside, error);
  sync_to_disk(folder_of(output_));
  if (const int error = rename_error(path_, output_); error != 0) {
    if (rename_error(aside, output_) == 0 || !fs::exists(aside)) fail(path_, output_, error);
    throw IoError(fmt::format("{}: rename to {} failed: {}; the old parts are in {}", path_.string(),
                              output_.string(), std::strerror(error), aside.string()),
                  fmt::format("Give them their name back: mv {} {}", aside.string(), output_.string()));
  }
  path_ = aside;
}

}  // namespace strata::partition
