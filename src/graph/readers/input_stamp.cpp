// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/input_stamp.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include "readers/files_below.hpp"
#include "strata/graph/dataset_source.hpp"
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
  if (const DatasetSource* const dataset = source.dataset()) places_.push_back(dataset->place);
  if (const auto parts = source.parts())
    if (const auto* const directory = std::get_if<fs::path>(&*parts)) places_.push_back(*directory);
  for (const fs::path& file :
       {files.features, files.labels, files.train, files.valid, files.test, parts_file})
    if (!file.empty()) places_.push_back(file);
  stamps_ = look();
}

InputStamp::Stamps InputStamp::look() const {
  Stamps stamps;
  for (const fs::path& place : places_) {
    for (const fs::path& file : files_below(place)) {
      struct stat status {};
      if (::stat(file.c_str(), &status) != 0) continue;
      stamps[file] = {.device = status.st_dev,
                      .file = status.st_ino,
                      .bytes = status.st_size,
                      .seconds = status.st_mtim.tv_sec,
                      .nanoseconds = status.st_mtim.tv_nsec};
    }
  }
  return stamps;
}

void InputStamp::require_unchanged() const {
  refuse_truncated_inputs();
  const Stamps now = look();
  for (const auto& [file, stamp] : stamps_) {
    const auto found = now.find(file);
    if (found == now.end()) refuse_changed(file, "went away");
    if (found->second != stamp) refuse_changed(file, "changed");
  }
}

}  // namespace strata::graph
