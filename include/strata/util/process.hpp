// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strata {

/// Sets what every program of Strata needs of its process; call it early in main, not in a library within
/// somebody else's program.
///
/// - A file that grows beyond `ulimit -f` is an error with a name (EFBIG), not the end of the process
///   (SIGXFSZ).
/// - As many files may be open as the hard limit allows: MPI, NCCL and part files take more than the usual
///   soft limit of 1024.
/// - Exit codes of child processes arrive, even if the parent ignored SIGCHLD.
void prepare_process();

}  // namespace strata
