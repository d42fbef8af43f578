# SPDX-License-Identifier: Apache-2.0
# A script that each build runs: writes FILE with the commit of SOURCE, if that is a checkout, and only if it has changed.
cmake_policy(VERSION 3.30)
set(commit "")
find_program(git git)
if(git AND EXISTS "${SOURCE}/.git")
  execute_process(COMMAND ${git} -C "${SOURCE}" describe --always --abbrev=10 --exclude=* --dirty=.dirty OUTPUT_VARIABLE commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT "${FILE}" CONTENT "#define STRATA_COMMIT \"@commit@\"\n" @ONLY)
