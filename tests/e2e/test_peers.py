# SPDX-License-Identifier: Apache-2.0
"""benchmarks/peers trains on a partition directory where the peer is installed, and is skipped where it is not:  test_peers.py PEER"""
import json
import pathlib
import subprocess
import sys
import tempfile

import strata_e2e as e2e

SKIPPED = 77
SPEC = 'synthetic:kind=sbm,nodes=900,edges=9000,features=12,classes=4,seed=5'


def main(peer):
    with tempfile.TemporaryDirectory(prefix='strata-peers-') as name:
        folder = pathlib.Path(name)
        subprocess.run([e2e.BIN / 'strata-partition', 'build', '--input', SPEC, '--parts', '2', '--output', folder / 'parts'],
                       check=True, capture_output=True)
        gpus = '1' if peer == 'wholegraph' else '0'
        done = subprocess.run([sys.executable, e2e.REPOSITORY / 'benchmarks/peers/peers.py', '--peer', peer, '--graph', folder / 'parts',
                               '--gpus', gpus, '--batch-size', '50', '--hidden', '16', '--fanouts', '5,5', '--epochs', '3', '--workers',
                               '0', '--json', folder / 'table.json'], text=True, capture_output=True)
        print(done.stdout, done.stderr)
        if done.returncode != SKIPPED:
            assert done.returncode == 0, done.returncode
            epochs = json.loads((folder / 'table.json').read_text())['epochs']
            assert len(epochs) == 2 and all(epoch['seeds_per_second'] > 0 for epoch in epochs)
            assert len({epoch['seeds'] for epoch in epochs}) == 1, 'every training seed once an epoch'
        return done.returncode


sys.exit(main(sys.argv[1]))
