// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>

#include "readers/input_files.hpp"
#include "strata/graph/read_graph.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_changed(const fs::path& file, const char* what) {
  throw InputError(fmt::format("{} {} while it was read", file.string(), what),
                   "Wait until nothing writes to the input, and start again.");
}

}  // namespace

InputStamp::InputStamp(const Source& source, const NodeFiles& files, const fs::path& parts_file) {
  if (const DatasetSource* const dataset = source.dataset())
    for (const fs::path& file : dataset_files(*dataset)) add(file);
  if (const auto parts = source.parts())
    if (const auto* const directory = std::get_if<fs::path>(&*parts))
      for (const fs::path& file : partition_files(*directory)) add(file);
  for (const fs::path& file :
       {files.features, files.labels, files.train, files.valid, files.test, parts_file})
    if (!file.empty()) add(file);
}

void InputStamp::add(const fs::path& file) {
  if (const auto stamp = look(file)) stamps_[file] = *stamp;
}

std::optional<InputStamp::Stamp> InputStamp::look(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return std::nullopt;
  return Stamp{.device = status.st_dev,
               .file = status.st_ino,
               .bytes = status.st_size,
               .seconds = status.st_mtim.tv_sec,
               .nanoseconds = status.st_mtim.tv_nsec};
}

void InputStamp::require_unchanged() const {
  refuse_truncated_inputs();
  for (const auto& [file, stamp] : stamps_) {
    const auto now = look(file);
    if (!now) refuse_changed(file, "went away");
    if (*now != stamp) refuse_changed(file, "changed");
  }
}

}  // namespace strata::graph
