# SPDX-License-Identifier: Apache-2.0
"""strata-doctor on one host, and on three of which each has something wrong: found, named, and in time."""
import json
import os
import re
import subprocess
import time
import unittest

import strata_e2e as e2e

CLUSTER = e2e.REPOSITORY / 'tests' / 'support' / 'netns_cluster.sh'
DOCTOR = e2e.BIN / 'strata-doctor'
OTHER_DOCTOR = e2e.BIN / 'doctor_of_another_version'   # the same sources, built as version 0.0.0
SPEC = 'synthetic:kind=sbm,nodes=3000,edges=30000,features=16,classes=4,seed={}'
CONFIG = '[model]\nfanouts = [5, 5]\nhidden = 32\n'
# Rank {rank} never starts MPI.
NEVER_STARTED = '''#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = {rank} ] && kill -STOP $$
exec {doctor} "$@"
'''
# Rank 1 reads another configuration.
ANOTHER_CONFIG = '''#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec {doctor} --config {config} "$@"
exec {doctor} "$@"
'''
QUICK_SECONDS, MPIRUN_SECONDS = 10, 2   # what --quick promises, and what mpirun may take to start and to end ranks
LEVELS = {'note': 0, 'warning': 1, 'failure': 2}
# On h1 another version, little memory that may be locked, and a wire of 10 Mbit/s; on h2 another part folder.
SICK = '''#!/bin/sh
case $(hostname) in
  h1)
    tc qdisc add dev v0 root tbf rate 10mbit burst 256kb latency 20ms || exit 77
    ulimit -l 64
    exec {other} "$@" ;;
  h2) mount --bind {others} {parts} || exit 77 ;;
esac
exec {doctor} "$@"
'''
STOPPED = '''#!/bin/sh
case $(hostname) in
  h0) date +%s.%N > {begun} ;;
  h1) tc qdisc add dev v0 root tbf rate 10mbit burst 256kb latency 20ms || exit 77 ;;
  h2) echo $$ > {pid} ;;
esac
exec {doctor} "$@"
'''


def found(record, check):
    """[(level, host)] of the findings of a check."""
    return [(finding['level'], finding['host']) for finding in record['findings'] if finding['check'] == check]


class Doctor(e2e.Case):
    def examine(self, *command, **environment):
        """(completed process, what --json holds, seconds)."""
        path = self.folder / 'found.json'
        begin = time.monotonic()
        done = self.run_program([*command, '--quick', '--json', path], timeout=60, **environment)
        seconds = time.monotonic() - begin
        self.assertTrue(path.exists(), done.stderr + done.stdout)
        record = json.loads(path.read_text())
        self.assertEqual(record['exit_code'], max([LEVELS[finding['level']] for finding in record['findings']], default=0))
        return done, record, seconds

    def script(self, text, **names):
        path = self.folder / 'on_each_host.sh'
        path.write_text(text.format(doctor=DOCTOR, **names))
        path.chmod(0o755)
        return path

    def skip_without_hosts(self, done):
        if done.returncode == e2e.SKIPPED:
            self.skipTest(e2e.reason_to_skip(done.stdout))

    def test_one_host_alone_and_under_mpirun(self):
        parts, config = self.build(SPEC.format(1), 2), self.folder / 'run.toml'
        config.write_text(CONFIG)
        alone, record, _ = self.examine(DOCTOR, '--graph', parts, '--config', config, '--output', self.folder / 'runs/first')
        self.assertEqual(alone.returncode, record['exit_code'], alone.stderr + alone.stdout)
        for check in ('versions', 'network', 'clocks', 'storage', 'plan'):
            self.assertEqual(found(record, check), [], alone.stdout)
        for words in ('Strata ', 'Open MPI', 'glibc', '1 rank on 1 host', 'cores' if os.cpu_count() > 1 else 'core', 'loading takes', 'limited by'):
            self.assertIn(words, e2e.joined(alone.stdout))
        self.assertEqual([line for line in alone.stdout.splitlines() if len(line) > 80 and '/' not in line], [], 'paths alone are longer')
        self.assertTrue(record['facts']['plan']['fits'])
        self.assertEqual(record['facts']['storage'][0]['part_bytes'], sum(file.stat().st_size for file in parts.glob('*.h5')))
        under, record, _ = self.examine(e2e.MPIRUN, '-n', 2, '--oversubscribe', '--bind-to', 'none', DOCTOR, '--graph', self.folder)
        self.assertEqual(under.returncode, 2, under.stderr + under.stdout)
        self.assertEqual(found(record, 'storage'), [('failure', record['hosts'][0])])
        self.assertIn('manifest.json', under.stdout)
        self.assertIn('Name a whole folder', under.stdout)

    def test_sees_more_ranks_than_processors(self):
        ranks = len(os.sched_getaffinity(0)) + 1
        if ranks > 9:
            self.skipTest('so many processors take more ranks than a test should start')
        done, record, _ = self.examine(e2e.MPIRUN, '-n', ranks, '--oversubscribe', '--bind-to', 'none', DOCTOR)
        self.assertGreaterEqual(done.returncode, 1)
        self.assertIn(('warning', record['hosts'][0]), found(record, 'ranks'))
        self.assertIn(f'{ranks} ranks', done.stdout)

    def test_refuses_what_it_does_not_understand(self):
        for options, words in ((['--quik'], '--help'), (['--config', 'no.toml'], 'no.toml'), (['--json', '/no/where'], '/no/where'), (['--graph'], '--graph needs a value'),
                               (['--graph', ''], '--graph: the value is empty'), (['--quick=3'], 'Give --quick without a value')):
            done = self.run_program([DOCTOR, *options], timeout=30)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
        config = self.folder / 'bad.toml'
        config.write_text('[model]\nhidden = -3\n')
        done = self.run_program([DOCTOR, '--graph', self.build(SPEC.format(1), 1), '--config', config], timeout=30)
        self.assertEqual((done.returncode, done.stdout), (2, ''), 'it is refused before anything is measured')
        self.assertIn('bad.toml:2:', done.stderr)
        done = self.run_program([DOCTOR, '--graph', SPEC.format(1)], timeout=30)
        self.assertEqual((done.returncode, done.stdout), (2, ''))
        self.assertIn('strata-partition build', done.stderr)
        done = self.run_program([DOCTOR, '--quick', '--output', config / 'run'], timeout=60)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn('bad.toml is a file', e2e.joined(done.stdout))
        done = self.run_program([DOCTOR, '--help'], timeout=30)
        self.assertEqual(done.returncode, 0)
        self.assertLess(len(done.stdout.splitlines()), 25)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80, done.stdout)

    def test_refuses_ranks_that_another_mpi_started(self):
        done = self.run_program([DOCTOR, '--quick'], PMI_RANK='0', PMI_SIZE='3', I_MPI_HYDRA_TOPOLIB='hwloc')
        self.assertEqual(done.returncode, 2, done.stdout)
        for word in ('PMI_SIZE=3', 'LD_LIBRARY_PATH'):
            self.assertIn(word, done.stderr + done.stdout)

    @unittest.skipUnless(OTHER_DOCTOR.exists(), 'doctor_of_another_version is not built')
    def test_finds_what_is_wrong_with_each_of_three_hosts(self):
        parts, others = self.build(SPEC.format(1), 3), self.build(SPEC.format(2), 3, 'others')
        script = self.script(SICK, other=OTHER_DOCTOR, parts=parts, others=others)
        # The script stands in for the options of examine(), which the program gets behind its own.
        path = self.folder / 'found.json'
        config = self.folder / 'run.toml'
        config.write_text(CONFIG)
        done = self.run_program(['sh', CLUSTER, 3, 1, script, '--graph', parts, '--config', config, '--quick', '--json', path], timeout=120)
        self.skip_without_hosts(done)
        self.assertEqual(done.returncode, 2, done.stderr + done.stdout)
        record = json.loads(path.read_text())
        self.assertEqual(record['hosts'], ['h0', 'h1', 'h2'])
        self.assertLess(record['seconds'], 10)
        self.assertIn(('failure', 'h1'), found(record, 'versions'))
        self.assertIn('0.0.0', done.stdout)
        self.assertIn(('warning', 'h1'), found(record, 'limits'))
        self.assertIn('64.0 KiB', done.stdout)
        self.assertEqual(found(record, 'storage'), [('failure', 'h2')])
        self.assertIn(('warning', 'h1'), found(record, 'network'))
        self.assertIn('it sends to every other host', e2e.joined(done.stdout))
        slow = [link['bytes_per_second'] for link in record['facts']['network']['links'] if link['from'] == 1]
        self.assertEqual(len(slow), 2)
        self.assertLess(max(slow), 5e6, '10 Mbit/s, and the bucket of the limit')
        self.assertEqual(record['facts']['network']['carriers'], ['v0'] * 3)
        planned = re.search(r'3 machines of 1 rank on CPUs (\d+\.\d) Mbit/s per rank', e2e.joined(done.stdout))
        self.assertTrue(planned, done.stdout)
        slowest = min(*slow, record['facts']['network']['all_to_all_bytes_per_second'])
        self.assertAlmostEqual(float(planned[1]), 8e-6 * slowest, delta=0.1, msg='plans with the slowest rate that it has measured')
        self.assertEqual(found(record, 'clocks'), [])
        for finding in record['findings']:
            self.assertFalse(finding['host'] == 'h0' and finding['check'] in ('versions', 'limits', 'storage'), finding)

    def mpirun(self, ranks, *command):
        return [e2e.MPIRUN, '-q', '-n', ranks, '--oversubscribe', '--bind-to', 'none', *command]

    def test_says_of_every_rank_that_waits_for_one_that_never_starts_mpi(self):
        for missing, ranks in ((1, 3), (0, 2)):
            with self.subTest(missing=missing):
                begin = time.monotonic()
                done = self.run_program(self.mpirun(ranks, self.script(NEVER_STARTED, rank=missing), '--quick'), timeout=60)
                self.assertLess(time.monotonic() - begin, QUICK_SECONDS + MPIRUN_SECONDS)
                self.assertEqual((done.returncode, done.stdout), (2, ''), done.stderr)
                waiting = re.findall(rf'^strata-doctor: rank (\d) of {ranks} \(host \S+\): MPI_Init has not returned within 6 s$', done.stderr, re.M)
                self.assertEqual(sorted(map(int, waiting)), [rank for rank in range(ranks) if rank != missing], done.stderr)
                # Twice where mpirun takes more than two seconds to end the other rank.
                self.assertIn(done.stderr.count('docs/troubleshooting.md#a-rank-that-does-not-answer'), (1, 2), done.stderr)
                self.assertLessEqual(max(len(line) for line in done.stderr.splitlines() if line.startswith(' ')), 80, done.stderr)

    def test_bad_input_ends_all_ranks_in_order(self):
        bad = self.folder / 'bad.toml'
        bad.write_text('[model]\nhidden = -3\n')
        for command, speaker in (([DOCTOR, '--config', bad], 'strata-doctor: '), ([self.script(ANOTHER_CONFIG, config=bad)], 'strata-doctor: rank 1 (host ')):
            done = self.run_program(self.mpirun(2, *command, '--graph', self.folder), timeout=60)
            self.assertEqual((done.returncode, done.stdout), (2, ''), done.stderr)
            self.assertTrue(done.stderr.startswith(speaker), done.stderr)
            self.assertEqual(done.stderr.count('bad.toml:2:'), 1, done.stderr)
            self.assertNotIn('MPI_ABORT', done.stderr)

    def test_names_a_rank_that_is_stopped(self):
        pid, begun, log, path = (self.folder / name for name in ('pid', 'begun', 'log', 'found.json'))
        script = self.script(STOPPED, pid=pid, begun=begun)
        command = ['sh', CLUSTER, 3, 1, script, '--quick', '--json', path]
        environment = dict(e2e.ENVIRONMENT, CLUSTER_WHEN=f'grep -q "on 3 hosts" {log}', CLUSTER_DELAY='0',
                           CLUSTER_EVENT=f'kill -STOP $(cat {pid})')
        with log.open('w') as stream:
            done = subprocess.run([str(word) for word in command], env=environment, stdout=stream, stderr=subprocess.STDOUT, timeout=60)
        ended, told = time.time(), log.read_text()
        if done.returncode == e2e.SKIPPED:
            self.skipTest(e2e.reason_to_skip(told))
        self.assertEqual(done.returncode, 2, told)
        record = json.loads(path.read_text())
        self.assertLess(ended - float(begun.read_text()), QUICK_SECONDS + MPIRUN_SECONDS, told)
        self.assertEqual(found(record, 'silence'), [('failure', 'h2')], told)
        self.assertIn('rank 2 (host h2) has been silent', e2e.joined(told))
        self.assertIn('docs/troubleshooting.md#a-rank-that-does-not-answer', told)
        self.assertRegex(told, r'Strata\s', 'what was found before is lost')


if __name__ == '__main__':
    e2e.main()
