#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# expect_exit.sh CODE PATTERN COMMAND...: succeeds if COMMAND ends with CODE and prints PATTERN (an extended regular
# expression; its output is taken as one line). The output is shown where it does not. 77 (skipped) is passed on.
code=$1 pattern=$2
shift 2
output=$("$@" 2>&1)
status=$?
if [ "$status" -eq 77 ] && [ "$code" -ne 77 ]; then
  printf '%s\n' "$output"
  exit 77
fi
if [ "$status" -ne "$code" ]; then
  printf '%s\nexpect_exit: exit code %s, expected %s\n' "$output" "$status" "$code"
  exit 1
fi
if ! printf '%s' "$output" | tr '\r\n' '  ' | grep -Eq -- "$pattern"; then
  printf '%s\nexpect_exit: nothing printed matches %s\n' "$output" "$pattern"
  exit 1
fi
