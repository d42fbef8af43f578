#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace strata {

/// Writes `contents` so that `path` holds either its old or its new contents, whatever happens: a temporary
/// beside it is written, flushed to disk and renamed. Throws IoError (with the errno text; "disk full" names
/// the remedy).
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

std::string read_file(const std::filesystem::path& path);  ///< whole file; throws IoError

/// Flushes a file or a directory entry to disk. Throws IoError.
void sync_to_disk(const std::filesystem::path& path);

std::int64_t free_disk_bytes(const std::filesystem::path& folder);

}  // namespace strata
