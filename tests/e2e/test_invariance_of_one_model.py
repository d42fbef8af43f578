# SPDX-License-Identifier: Apache-2.0
"""The part of the invariance of losses that a plain launch/test runs."""
import strata_e2e as e2e
from test_invariance import Losses


class OneModel(Losses):
    def test_sage(self):
        self.check('sage', whole_matrix=True)

    def test_planted_graphs(self):
        graph = 'planted:nodes=3000,degree=10,parts=3,within=0.8,features=24,classes=5,train=0.6,valid=0.2,test=0.2,seed=7'
        asks = ['--replicate-graph', 'off', '--halo-cache', '0']
        keeps = ['--replicate-graph', 'off', '--halo-cache', '40KiB']
        reference = self.losses(graph, ranks=1)
        for ranks, machine, options in [(2, 0, []), (2, 1, asks), (3, 1, keeps), (3, 1, ['--replicate-graph', 'on'])]:
            run = self.losses(graph, *options, '--ranks-per-machine', str(machine), ranks=ranks)
            self.compare(reference, run, f'planted, {ranks} ranks, {machine} a machine {options}')


if __name__ == '__main__':
    e2e.main()
