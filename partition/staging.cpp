#include "staging.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "strata/graph/manifest_file.hpp"
#include "strata/util/files.hpp"

namespace strata::partition {
namespace fs = std::filesystem;
namespace {

constexpr const char* kInfix = ".partial-";

fs::path parent_of(const fs::path& output) {
  return output.has_parent_path() ? output.parent_path() : fs::path{"."};
}

/// "out/" and "out" are the same directory; rename needs the latter.
fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

bool belongs_to_partition(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == graph::kManifestFile || (name.starts_with("part-") && name.ends_with(".h5"));
}

fs::path make_temporary(const fs::path& output) {
  std::string name = (parent_of(output) / ("." + output.filename().string() + kInfix + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) {
    throw InputError(fmt::format("{}: no directory can be made there: {}", parent_of(output).string(),
                                 std::strerror(errno)),
                     "Choose an --output whose folder exists and can be written.");
  }
  chmod(name.c_str(), 0755);  // mkdtemp allows the owner alone
  return name;
}

/// A killed build cannot clean up after itself; tell rather than delete what another host may still write.
void warn_of_leftovers(const fs::path& output) {
  const std::string prefix = "." + output.filename().string() + kInfix;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent_of(output), code)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    spdlog::warn("{} is left from a build that was killed, or still runs; if none runs, remove it",
                 entry.path().string());
  }
}

int rename_flags(const fs::path& from, const fs::path& to, unsigned flags) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

[[noreturn]] void fail(const fs::path& from, const fs::path& to, int error) {
  throw IoError(fmt::format("{}: rename to {} failed: {}", from.string(), to.string(), std::strerror(error)));
}

}  // namespace

void refuse_output(const fs::path& given, bool force) {
  const fs::path output = without_slash(given);
  if (output.empty() || output.filename() == "." || output.filename() == "..") {
    throw InputError(fmt::format("--output {} names no directory of its own", given.string()),
                     "Name a new directory.");
  }
  std::error_code code;
  if (!fs::is_directory(parent_of(output), code)) {
    throw InputError(
        fmt::format("--output {}: the folder {} does not exist", given.string(), parent_of(output).string()),
        "Make it first (mkdir -p).");
  }
  if (access(parent_of(output).c_str(), W_OK | X_OK) != 0) {
    throw InputError(fmt::format("--output {}: the folder {} cannot be written: {}", given.string(),
                                 parent_of(output).string(), std::strerror(errno)),
                     "Choose another folder.");
  }
  const fs::file_status status = fs::symlink_status(output, code);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status))
    throw InputError(fmt::format("--output {} exists and is no directory", given.string()),
                     "Choose another name.");
  for (const fs::directory_entry& entry : fs::directory_iterator(output)) {
    if (!belongs_to_partition(entry.path())) {
      throw InputError(fmt::format("--output {} exists and holds {}, which is no part of a partition",
                                   given.string(), entry.path().filename().string()),
                       "Choose another name, or remove the directory yourself.");
    }
    if (!force)
      throw InputError(fmt::format("--output {} exists", given.string()),
                       "Choose another name, or give --force to replace it.");
  }
}

StagingDirectory::StagingDirectory(fs::path output, bool force, StopFlag& stop)
    : output_{without_slash(output)}, force_{force}, stop_{stop} {
  refuse_output(output_, force);
  warn_of_leftovers(output_);
  stop_.set_cleanup_needed(true);
  stop_.check();
  try {
    path_ = make_temporary(output_);
  } catch (...) {
    stop_.set_cleanup_needed(false);
    throw;
  }
}

StagingDirectory::~StagingDirectory() {
  std::error_code code;
  if (!path_.empty()) fs::remove_all(path_, code);
  stop_.set_cleanup_needed(false);
}

void StagingDirectory::publish() {
  sync_to_disk(path_);
  refuse_output(output_, force_);  // it may have appeared meanwhile
  std::error_code code;
  const bool replaces = force_ && fs::exists(output_, code) && !fs::is_empty(output_, code);
  int error = replaces ? rename_flags(path_, output_, RENAME_EXCHANGE)
              : std::rename(path_.c_str(), output_.c_str()) == 0 ? 0
                                                                 : errno;
  if (replaces && error != 0) {  // a file system without exchange: the old one steps aside first
    const fs::path aside = path_.string() + "-old";
    if (std::rename(output_.c_str(), aside.c_str()) != 0) fail(output_, aside, errno);
    if (std::rename(path_.c_str(), output_.c_str()) != 0) {
      error = errno;
      std::rename(aside.c_str(), output_.c_str());
      fail(path_, output_, error);
    }
    path_ = aside;
    error = 0;
  }
  if (error != 0) fail(path_, output_, error);
  if (!replaces) path_.clear();  // else it names what was replaced, which the destructor removes
  sync_to_disk(parent_of(output_));
}

}  // namespace strata::partition
