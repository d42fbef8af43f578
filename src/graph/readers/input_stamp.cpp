// SPDX-License-Identifier: Apache-2.0
#include "strata/graph/input_stamp.hpp"

#include <fmt/format.h>

#include "strata/graph/dataset_source.hpp"
#include "strata/util/error.hpp"

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& file, const char* what) {
  throw InputError(fmt::format("{} {} while it was read", file.string(), what),
                   "Wait until nothing writes to the input, and start again.");
}

}  // namespace

InputStamp::InputStamp(const Source& source, const NodeFiles& files) {
  if (const DatasetSource* const dataset = source.dataset()) places_.push_back(dataset->place);
  if (const auto parts = source.parts())
    if (const auto* const directory = std::get_if<fs::path>(&*parts)) places_.push_back(*directory);
  for (const fs::path& file : {files.features, files.labels, files.train, files.valid, files.test})
    if (!file.empty()) places_.push_back(file);
  stamps_ = look();
}

InputStamp::Stamps InputStamp::look() const {
  Stamps stamps;
  std::error_code code;
  const auto add = [&](const fs::path& file) {
    const Stamp stamp{fs::file_size(file, code), fs::last_write_time(file, code)};
    if (!code) stamps[file] = stamp;
  };
  for (const fs::path& place : places_) {
    if (!fs::is_directory(place, code)) {
      add(place);
      continue;
    }
    for (auto entry = fs::recursive_directory_iterator(place, code);
         !code && entry != fs::recursive_directory_iterator(); entry.increment(code))
      if (entry->is_regular_file(code)) add(entry->path());
  }
  return stamps;
}

void InputStamp::require_unchanged() const {
  refuse_truncated_inputs();
  const Stamps now = look();
  for (const auto& [file, stamp] : stamps_) {
    const auto found = now.find(file);
    if (found == now.end()) refuse(file, "went away");
    if (found->second != stamp) refuse(file, "changed");
  }
}

}  // namespace strata::graph
