// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace strata::comm {

/// The launcher's word on which rank this is; 0 without a launcher. MPI need not run yet.
int rank_of_launcher();

/// How many ranks the launcher says that it started; 0 if it does not say.
int ranks_of_launcher();

}  // namespace strata::comm
