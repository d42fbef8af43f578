// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strata::partition {

/// The program strata-partition: parses, runs, prints. Returns the exit code; throws nothing.
int run_command_line(int argc, char** argv);

}  // namespace strata::partition
