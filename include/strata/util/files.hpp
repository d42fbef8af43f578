// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace strata {

struct WriteOptions {
  bool read_back = false;  ///< compare what the disk holds with `contents` before the old file is replaced
  std::filesystem::path keep_old_as = {};  ///< another name in the same folder for the old file; empty: none
};

/// The remedy for the errno of a file: for a full disk or quota, and for the limits of a process
/// (`ulimit -f`, `ulimit -n`); `otherwise` for all else.
std::string file_remedy(int code, const std::string& otherwise = "");

/// Writes `contents` so that `path` holds either its old or its new contents, whatever happens: a temporary
/// file beside it is written, flushed to disk and renamed. Throws IoError with the text of errno; "disk full"
/// comes with a remedy.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents,
                           const WriteOptions& options = {});

/// Removes the temporary files that write_file_atomically() left beside `path` because its process was
/// killed. Call it only while no other process writes `path`.
void remove_temporaries_of(const std::filesystem::path& path);

/// Makes an empty file beside `path`, to be filled and renamed to `path`. Its name, "path.tmp-0a1b2c3d", is
/// unpredictable, so that no file or link of somebody else is opened. Throws IoError.
std::filesystem::path make_temporary_beside(const std::filesystem::path& path);

/// The folder that a file or directory lies in, with or without a trailing slash; "." for only a name.
std::filesystem::path folder_of(const std::filesystem::path& path);

/// Whether a file could be written at `path`. Changes nothing that is there.
bool can_write_file(const std::filesystem::path& path);

std::string read_file(const std::filesystem::path& path);  ///< whole file; throws IoError

/// Flushes a file or a directory entry to disk. Throws IoError.
void sync_to_disk(const std::filesystem::path& path);

/// Free bytes of a folder's disk; the largest number if its file system counts no blocks, as /proc does.
std::int64_t free_disk_bytes(const std::filesystem::path& folder);

}  // namespace strata
