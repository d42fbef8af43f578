// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace strata {

/// The compression of a file that begins with these bytes, 263 or all of them: "gzip", "zstd", "xz", "bzip2",
/// "zip", "lz4", "7z", "compress" or "tar". Empty if it is none of these.
std::string_view compression_of(std::string_view first_bytes);

/// Throws InputError with the command that unpacks such a file, if these bytes are the beginning of one.
void refuse_compressed(std::string_view first_bytes, const std::string& origin);
/// The same of a file, if it can be read.
void refuse_compressed(const std::filesystem::path& path);

}  // namespace strata
