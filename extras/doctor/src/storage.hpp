// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <string>

#include "judge.hpp"

namespace strata::doctor {

/// Looks at a part folder from this process: at the manifest, and the sizes of its parts. Reads no part.
StorageFacts look_at_parts(const std::string& folder);

/// The rate at which this process reads a folder's parts, past the host's memory where the file system can.
struct ReadRate {
  double bytes_per_second = 0;
  bool direct = false;
};
ReadRate read_parts(const std::string& folder, std::chrono::milliseconds duration);

/// Looks at the folder of a run, or the nearest one above it that exists.
OutputFacts look_at_output(const std::string& folder);

}  // namespace strata::doctor
