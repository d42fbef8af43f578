// SPDX-License-Identifier: Apache-2.0
#include "readers/files_below.hpp"

#include <set>

namespace strata::graph {
namespace {

namespace fs = std::filesystem;

class Walk {
 public:
  void visit(const fs::path& place) {
    std::error_code code;
    const fs::file_status status = fs::status(place, code);
    if (fs::is_regular_file(status)) files.push_back(place);
    if (!fs::is_directory(status) || !folders_.insert(fs::canonical(place, code)).second) return;
    for (auto entry = fs::directory_iterator(place, code); !code && entry != fs::directory_iterator();
         entry.increment(code))
      visit(entry->path());
  }

  std::vector<fs::path> files;

 private:
  std::set<fs::path> folders_;
};

}  // namespace

std::vector<fs::path> files_below(const fs::path& place) {
  Walk walk;
  walk.visit(place);
  return std::move(walk.files);
}

}  // namespace strata::graph
