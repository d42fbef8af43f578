// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace strata::graph {

/// The bytes of a file, inflated if it is compressed by gzip or zstd. An owner of the open file.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Reads up to `bytes` bytes; 0 at the end. Throws InputError if compressed data are damaged or cut off.
  virtual std::size_t read(char* out, std::size_t bytes) = 0;
  /// How many bytes of the file itself were read so far.
  virtual std::int64_t file_bytes_read() const = 0;
};

/// Opens a file; its first bytes determine the compression. Throws InputError if there is no such file, if
/// another program packed it, or if it is empty: a full disk or an interrupted copy leaves such files.
std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path);

}  // namespace strata::graph
