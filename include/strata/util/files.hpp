// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace strata {

struct WriteOptions {
  bool read_back = false;                  ///< compare what the disk holds before the old file is replaced
  std::filesystem::path keep_old_as = {};  ///< another name in the same folder for the old file; empty: none
};

/// Writes `contents` so that `path` holds either its old or its new contents, whatever happens: a temporary
/// beside it is written, flushed to disk and renamed. Throws IoError (with the errno text; "disk full" names
/// the remedy).
void write_file_atomically(const std::filesystem::path& path, std::string_view contents,
                           const WriteOptions& options = {});

/// Removes the temporaries that write_file_atomically left beside `path` where its process was killed. Call
/// it only while no other process writes `path`.
void remove_temporaries_of(const std::filesystem::path& path);

/// Makes an empty file beside `path` for contents that will be renamed to it: "path.tmp-0a1b2c3d", a name
/// that nobody can foresee, so that no file or link of somebody else is opened. Throws IoError.
std::filesystem::path make_temporary_beside(const std::filesystem::path& path);

/// The folder that a file or directory lies in, with or without a slash behind its name; "." for a mere name.
std::filesystem::path folder_of(const std::filesystem::path& path);

/// Could a file be written at `path`? Touches nothing that is there.
bool can_write_file(const std::filesystem::path& path);

std::string read_file(const std::filesystem::path& path);  ///< whole file; throws IoError

/// Flushes a file or a directory entry to disk. Throws IoError.
void sync_to_disk(const std::filesystem::path& path);

std::int64_t free_disk_bytes(const std::filesystem::path& folder);

}  // namespace strata
