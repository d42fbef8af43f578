# SPDX-License-Identifier: Apache-2.0
"""Prints the targets that chosen tests need, one per line, and on stderr what is going to be done and about how long that takes.

    needed_targets.py CTEST BUILD SUITE [OPTION OF CTEST...]

SUITE is the folder in which ctest finds the tests of BUILD.

A test needs what its command, its environment and REQUIRED_FILES name within BUILD: a program or a library; all programs where it
is given their folder, and the Python package where it is given the package's.
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

SECONDS_PER_STEP = 6   # of one core: the average of compiling and linking
SECONDS_PER_TEST = 1   # of one core, where COST names no other number
KINDS = ('unit', 'ranks', 'gpu', 'python', 'e2e', 'fuzz')
FOLDERS = {'bin': 'programs', 'python': 'python'}


def properties(test):
    return {each['name']: each['value'] for each in test['properties']}


def commands_by_name(build):
    """From the files that CMake writes for ctest, which does not show the command of a test whose program is not built yet."""
    found = {}
    for folder, below, files in os.walk(build):
        # Below it, tests configure build trees of their own.
        below[:] = [name for name in below if name != 'CMakeFiles' and not (pathlib.Path(folder) / name / 'CMakeCache.txt').exists()]
        if 'CTestTestfile.cmake' in files:
            found.update(re.findall(r'^add_test\(\[=\[(.*?)\]=\] (.*)\)$', (pathlib.Path(folder) / 'CTestTestfile.cmake').read_text(), re.MULTILINE))
    return found


def targets_of(build, test, commands):
    known = properties(test)
    words = [commands.get(test['name'], ''), *known.get('REQUIRED_FILES', []), *(value.partition('=')[2] for value in known.get('ENVIRONMENT', []))]
    paths = {match for word in words for match in re.findall(rf'{re.escape(str(build))}/([^\s:;"]+)', word)}
    return {FOLDERS.get(path, path) for path in paths}


def steps_to_do(build, targets):
    """Those whose output is not there yet; the others may have to be done again, and are few where somebody works."""
    ninja = re.search(r'^CMAKE_MAKE_PROGRAM:\w+=(.*)$', (build / 'CMakeCache.txt').read_text(), re.MULTILINE)[1]
    shown = subprocess.run([ninja, '-C', build, '-t', 'commands', *targets], stdout=subprocess.PIPE, text=True, check=True)
    return sum(not (build / output).exists() for output in set(re.findall(r' -o (\S+)', shown.stdout)))


def plan(tests, steps, cores):
    kinds = collections.Counter(kind for test in tests for kind in KINDS if kind in properties(test).get('LABELS', []))
    seconds = steps * SECONDS_PER_STEP + sum(properties(test).get('COST', SECONDS_PER_TEST) for test in tests)
    listed = ', '.join(f'{kinds[kind]} {kind}' for kind in KINDS if kinds[kind])
    return f'{len(tests)} tests ({listed}) after {steps} new steps of building: about {max(1, round(seconds / cores / 60))} min on {cores} cores'


def main(ctest, build, suite, *options):
    build = pathlib.Path(build)
    shown = subprocess.run([ctest, '--test-dir', suite, '--show-only=json-v1', *options], stdout=subprocess.PIPE)
    if shown.returncode:
        sys.exit(f'error: ctest does not take these options: {" ".join(options)}')
    tests = json.loads(shown.stdout)['tests']
    if not tests:
        sys.exit(f'error: {build} has no such tests: {" ".join(options)}; those of GPUs need --cuda')
    commands = commands_by_name(build)
    targets = sorted(set().union(*(targets_of(build, test, commands) for test in tests)))
    print('--', plan(tests, steps_to_do(build, targets), len(os.sched_getaffinity(0))), file=sys.stderr, flush=True)
    print(*targets, sep='\n', end='\n' if targets else '')


if __name__ == '__main__':
    main(*sys.argv[1:])
