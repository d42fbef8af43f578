// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
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

/// XXH3 (64 bits) of a stream of bytes.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void update(const void* data, std::size_t bytes);
  std::uint64_t digest() const;
  void reset();  ///< begins a new stream

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t hash_bytes(const void* data, std::size_t bytes);
std::string hex64(std::uint64_t value);  ///< 16 lower-case digits

/// The compression of a file that begins with these bytes, 263 or all of them: "gzip", "zstd", "xz", "bzip2",
/// "zip", "lz4", "7z", "compress" or "tar". Empty if it is none of these.
std::string_view compression_of(std::string_view first_bytes);

/// Throws InputError with the command that unpacks such a file, if these bytes are the beginning of one.
void refuse_compressed(std::string_view first_bytes, const std::string& origin);
/// The same of a file, if it can be read.
void refuse_compressed(const std::filesystem::path& path);

/// A path that begins with "~/", or is "~", with the folder that HOME names instead of "~"; any other text as
/// it is. Shells do so only where a word begins with it.
std::string expand_home(std::string path);

/// The same of a word of a command line: the whole, or what follows its first "=", as in "--output=~/parts".
std::string expand_home_in_word(std::string word);

}  // namespace strata
