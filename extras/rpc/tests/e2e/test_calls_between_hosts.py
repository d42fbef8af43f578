# SPDX-License-Identifier: Apache-2.0
"""Calls between three hosts of one rank each, network namespaces: what holds on one host holds there, and a link that is lost ends calls."""
import subprocess

import strata_e2e as e2e

RANKS = e2e.REPOSITORY / 'tests' / 'support' / 'netns_ranks.sh'


class CallsBetweenHosts(e2e.Case):
    def run_on_hosts(self, program, *options, within=(), **environment):
        if not (e2e.BIN / program).exists():
            self.skipTest(f'{program} is not built')
        done = subprocess.run([str(word) for word in ['sh', RANKS, 3, *within, e2e.BIN / program, *options]], text=True, capture_output=True,
                              timeout=600, env=dict(e2e.ENVIRONMENT, **environment))
        if done.returncode == 77:
            self.skipTest(e2e.reason_to_skip(done.stdout))
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def test_calls(self):
        self.assertRegex(self.run_on_hosts('agent_test'), r'\[  PASSED  \] \d+ tests')

    def test_channels(self):
        self.assertRegex(self.run_on_hosts('channels_test'), r'\[  PASSED  \] \d+ tests')

    def test_interfaces_of_a_list(self):
        told = self.run_on_hosts('agent_test', '--gtest_filter=*CallsFunctionsOfEveryRank', within=['env', 'GLOO_SOCKET_IFNAME=v0,v9'])
        self.assertRegex(told, r'\[  PASSED  \] 1 test')

    def test_lost_link(self):
        started = self.folder / 'started'
        told = self.run_on_hosts('killed_agent_scenario', 'link', started, CLUSTER_WHEN=f'test -s {started}',
                                 CLUSTER_EVENT='ip -n $HOST_NETNS_2 link set v0 down')
        self.assertRegex(told, r'rank 0 heard: (add was not answered by )?worker2 \(rank 2, host h2\)')
        self.assertRegex(told, r'rank 2 heard: (add was not answered by )?worker0 \(rank 0, host h0\)')
        self.assertIn('worker1 still adds: 42', told)


if __name__ == '__main__':
    e2e.main()
