# SPDX-License-Identifier: Apache-2.0
"""Features in i8, e4m3, i4 and vq: bytes as the formats say, the same training wherever rows are compressed, accuracy as in f32."""
import json
import subprocess
import sys

import numpy as np

import strata_e2e as e2e

SPEC = 'synthetic:kind=sbm,nodes=3000,edges=40000,features=21,classes=5,train=1200,valid=600,test=600,noise=1,seed=7'
JOB = ['--fanouts', '4,3', '--hidden', '16', '--global-batch-size', '60', '--epochs', '2', '--log-every', '1', '--seed', '11']
ROW_BYTES = {'f32': 84, 'i8': 28, 'e4m3': 28, 'i4': 16, 'vq': 8}


class CompressedFeatures(e2e.Case):
    def parts(self, spec, kind, parts=1):
        return self.build(spec, parts, f'{kind}-{parts}', '--features', kind)

    def losses(self, graph, *options, ranks=1):
        output, _ = self.train(graph, *JOB, *options, '--eval-every', '0', ranks=ranks)
        return e2e.step_losses(output)

    def test_parts_take_the_bytes_of_their_format(self):
        for kind, row_bytes in ROW_BYTES.items():
            folder = self.parts(SPEC, kind)
            done = self.run_program([e2e.BIN / 'strata-partition', 'info', folder, '--json'])
            info = json.loads(done.stdout)
            self.assertEqual(info['features'], {'cols': 21, 'dtype': kind})
            self.assertEqual(info['bytes']['features'], 3000 * row_bytes)
            done = self.run_program([e2e.BIN / 'strata-partition', 'verify', folder])
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_does_not_matter_where_rows_are_compressed(self):
        plain, plain2 = self.parts(SPEC, 'f32'), self.parts(SPEC, 'f32', 2)
        uncompressed = self.losses(plain)
        for kind in ('i8', 'e4m3', 'i4'):
            stored = self.losses(self.parts(SPEC, kind))
            self.assertEqual(self.losses(plain, '--feature-format', kind), stored)
            self.assertNotEqual(stored, uncompressed)
            np.testing.assert_allclose(stored, uncompressed, rtol=0.2)
            two = self.losses(plain2, '--feature-format', kind, '--ranks-per-machine', '1', ranks=2)
            np.testing.assert_allclose(two, stored, rtol=2e-4)
        self.assertEqual(len(self.losses(self.parts(SPEC, 'vq'))), len(uncompressed))

    def test_contradictions_are_refused(self):
        compressed = self.parts(SPEC, 'i8')
        for options, text in ((['--feature-format', 'i4'], 'are stored as i8 and cannot be kept as i4'),
                              (['--feature-format', 'vq'], 'stored, i8, e4m3 or i4')):
            done = self.run_program([e2e.BIN / 'strata-train', '--graph', compressed, '--output', self.folder / 'refused', *JOB, *options])
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(text, done.stdout + done.stderr)

    @e2e.needs_data('facebook100')
    def test_accuracy_is_that_of_f32(self):
        """One school and few epochs; benchmarks/accuracy has more."""
        folder = self.folder / 'reed'
        subprocess.run([sys.executable, e2e.DATA / 'to_graphbolt.py', 'facebook100', folder, '--schools', 'Reed98'], check=True,
                       capture_output=True)
        accuracy = {}
        for kind in ('f32', 'e4m3', 'i4'):
            output, _ = self.train(self.parts(f'graphbolt:{folder}', kind), '--hidden', '32', '--fanouts', '10,5', '--epochs', '8',
                                   '--batch-size', '128', '--lr', '0.01', '--seed', '1')
            accuracy[kind] = e2e.final(output)['test']['accuracy']
        for kind in ('e4m3', 'i4'):  # of some 130 test nodes, of which each is 0.8 points
            self.assertAlmostEqual(accuracy[kind], accuracy['f32'], delta=0.04, msg=str(accuracy))


if __name__ == '__main__':
    e2e.main()
