// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "strata/comm/communicator.hpp"

namespace strata::test {

/// The World of a test on several ranks; its main (strata::test_mpi) makes one before the tests start, over
/// whatever started the ranks.
///
/// Every test runs on all ranks and fails on all ranks if it fails or throws on one. Rank 0 prints the
/// results; other ranks print their failures alone, each with its rank. A test that goes on for
/// STRATA_TEST_SECONDS (60), or for ten seconds more on some ranks after it failed on another, ends the
/// program.
const comm::World& world();

}  // namespace strata::test
