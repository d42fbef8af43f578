// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <memory>

#include "readers/parquet/parquet_file.hpp"

namespace strata::graph {

/// Opens a Parquet file by the library kParquetLibrary, which is loaded the first time.
///
/// Throws InputError if the file cannot be read, or if the library or what it needs of Arrow is not there.
std::unique_ptr<ParquetFile> open_parquet(const std::filesystem::path& path);

}  // namespace strata::graph
