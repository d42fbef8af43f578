# SPDX-License-Identifier: Apache-2.0
"""Runs ctest and closes with how many tests ran, how many were skipped and why; the last line is ctest's own summary.

    run_ctest.py CTEST [OPTION...]

A test that is skipped exits with its SKIP_RETURN_CODE. It prints, as a test does of which only some cases are skipped, a line per
reason:  -- skipped: 2 of 14 cases: needs a GPU
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

REASON = re.compile(r'^-- skipped: (\d+) of \d+ cases: (.*\S)', re.MULTILINE)
SUMMARY = re.compile(r'^\d+% tests passed')
KEPT_BYTES = 1 << 20   # of a test's output, which ctest cuts at the front


def run(command):
    """Shows what the command prints; returns its exit code and ctest's line of summary, empty where there is none."""
    summary = ''
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors='replace') as process:
        for line in process.stdout:
            print(line, end='', flush=True)
            summary = line.strip() if SUMMARY.match(line) else summary
    return process.returncode, summary


def reasons_of(test):
    """Skipped cases per reason."""
    counts = collections.Counter()
    for count, reason in REASON.findall(test.findtext('system-out') or ''):
        counts[reason] += int(count)
    return counts


def table(counts):
    return [f'--   {count:5}  {reason}' for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def closing_lines(results):
    tests = xml.etree.ElementTree.parse(results).getroot().findall('testcase')
    skipped, cases = collections.Counter(), collections.Counter()
    for test in tests:
        reasons = reasons_of(test)
        if test.get('status') != 'notrun':
            cases += reasons
        elif reasons:
            skipped[reasons.most_common(1)[0][0]] += 1
        else:   # a command that could not be started, or a test that tells nothing
            message = test.find('skipped').get('message') if test.find('skipped') is not None else ''
            skipped['no reason given' if message.startswith('SKIP_RETURN_CODE') else message or 'no reason given'] += 1
    number = sum(skipped.values())
    lines = [f'-- {len(tests)} tests: {len(tests) - number} ran, {number} were skipped{":" if number else ""}', *table(skipped)]
    if cases:
        lines += ['-- cases skipped within tests that ran:', *table(cases)]
    return lines


def main(command):
    with tempfile.TemporaryDirectory(prefix='strata-ctest-') as folder:
        results = pathlib.Path(folder) / 'results.xml'
        code, summary = run([*command, '--output-junit', str(results), '--test-output-size-passed', str(KEPT_BYTES),
                             '--test-output-size-failed', str(KEPT_BYTES), '--test-output-truncation', 'head'])
        if results.exists() and summary:
            print('', *closing_lines(results), '', summary, sep='\n', flush=True)
    return code


sys.exit(main(sys.argv[1:]))
