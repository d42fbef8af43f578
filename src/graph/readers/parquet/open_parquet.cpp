// SPDX-License-Identifier: Apache-2.0
#include "readers/parquet/open_parquet.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "strata/util/error.hpp"
#include "strata/util/files.hpp"
#include "strata/util/system.hpp"
#include "strata/util/text.hpp"

namespace strata::graph {
namespace {

/// Loads the library. It stays loaded: its exceptions may live on.
OpenParquet* load() {
  void* const library = dlopen((library_folder() / kParquetLibrary).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const open = library == nullptr ? nullptr : dlsym(library, kOpenParquet);
  if (open != nullptr) return reinterpret_cast<OpenParquet*>(open);
  throw InputError(fmt::format("Parquet cannot be read here: {}", dlerror()),
                   "Install Arrow: launch/setup --parquet, then launch/build; beside a wheel or a pack, the "
                   "version of pyarrow "
                   "that Strata was built with. Or write the tables as NumPy arrays "
                   "(examples/from_parquet.py) and give npy:DIR.");
}

}  // namespace

std::unique_ptr<ParquetFile> open_parquet(const std::filesystem::path& path) {
  static OpenParquet* const open = load();
  try {
    return std::unique_ptr<ParquetFile>(open(path.c_str()));
  } catch (const std::exception& error) {
    refuse_compressed(path);
    throw InputError(fmt::format("{}: {}", path.string(), printable(error.what())),
                     "Is it a Parquet file? Write or copy it again.");
  }
}

}  // namespace strata::graph
