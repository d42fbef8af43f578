// SPDX-License-Identifier: Apache-2.0
// A manifest.json, as it is and with the checksum that its contents should have: else hardly an input would
// pass it.
#include <nlohmann/json.hpp>

#include "fuzz_target.hpp"
#include "parts/checked_file.hpp"
#include "strata/graph/manifest_file.hpp"
#include "strata/util/files.hpp"

using namespace strata;
using namespace strata::fuzz;

namespace {

using Json = nlohmann::ordered_json;

void use(const std::string& text) {
  expect_result_or_error([&] {
    const graph::PartitionRecord record = graph::parse_manifest(text, "manifest.json");
    for (const graph::ConstraintRecord& constraint : record.constraints) constraint.balance();
    for (const graph::PartRecord& part : record.parts)
      graph::OutsideBytes(graph::recorded_extents(part)).gaps(0, part.bytes);
    graph::format_manifest(record);
  });
}

std::string sealed(Json json) {
  json.erase("xxh3");
  const std::string text = json.dump(1) + "\n";
  json["xxh3"] = hex64(hash_bytes(text.data(), text.size()));
  return json.dump(1) + "\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(text_of({data, size}));
  use(text);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) use(sealed(json));
  return 0;
}
