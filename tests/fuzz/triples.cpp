// SPDX-License-Identifier: Apache-2.0
// Triples as text. The first byte says which format, or which file of OpenKE beside two that are right.
#include <array>
#include <string>

#include "scratch_folder.hpp"
#include "sound_files.hpp"
#include "strata/graph/read_graph.hpp"

using namespace strata;
using namespace strata::fuzz;

namespace {

constexpr std::array kForms = {"nt:{}", "nt:{},literals,reverse", "triples:{}", "nt:{},train={},test={}"};

std::string with_path(std::string form, const std::string& path) {
  for (std::size_t place; (place = form.find("{}")) != std::string::npos;) form.replace(place, 2, path);
  return form;
}

void read(const std::string& spec) {
  expect_result_or_error([&] { graph::read_graph(spec, {.num_threads = 1}); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchFolder folder;
  if (size == 0) return 0;
  const std::size_t choice = data[0] % (kForms.size() + kTripleFiles.size());
  const Bytes rest(data + 1, size - 1);
  if (choice < kForms.size()) {
    const InputFile file(rest);
    read(with_path(kForms[choice], file.path()));
    return 0;
  }
  if (has_long_number(text_of(rest))) return 0;
  write_triples(folder.path());
  folder.write(kTripleFiles[choice - kForms.size()], rest);
  read("triples:" + folder.path().string());
  return 0;
}
