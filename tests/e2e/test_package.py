# SPDX-License-Identifier: Apache-2.0
"""The installed package: examples/own_model finds it, builds, and trains its own model on one and two ranks."""
import os
import pathlib
import shutil
import unittest

import strata_e2e as e2e

BUILD = e2e.BIN.parent
SPEC = 'synthetic:kind=sbm,nodes=900,edges=9000,features=12,classes=4,seed=5'
CMAKE = shutil.which('cmake', path=f'{os.environ.get("STRATA_PYTHON_ENV", "")}/bin:{os.environ["PATH"]}')


@unittest.skipUnless(CMAKE, 'cmake is not on the PATH')
class Package(e2e.Case):
    def checked(self, *command, timeout=1500):
        done = self.run_program(command, timeout)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:] + done.stdout[-4000:])
        return done

    def test_a_model_of_ones_own(self):
        prefix, build = self.folder / 'prefix', self.folder / 'build'
        self.checked(CMAKE, '--install', BUILD, '--prefix', prefix, '--component', 'development')
        generator = ['-G', 'Ninja'] if shutil.which('ninja', path=str(pathlib.Path(CMAKE).parent) + ':' + os.environ['PATH']) else []
        self.checked(CMAKE, '-S', e2e.REPOSITORY / 'examples/own_model', '-B', build, f'-DCMAKE_PREFIX_PATH={prefix}',
                     '-DCMAKE_BUILD_TYPE=Release', *generator)
        self.checked(CMAKE, '--build', build)
        graph = self.build(SPEC, 2)
        job = ['--graph', graph, '--device', 'cpu', '--fanouts', '5,5', '--hidden', '16', '--batch-size', '50', '--epochs', '6', '--lr',
               '0.01', '--normalize-features']
        for ranks in (1, 2):
            output = self.folder / f'own{ranks}'
            command = [e2e.MPIRUN, '-n', ranks, '--oversubscribe', '--bind-to', 'none', build / 'own_model', *job, '--output', output]
            self.checked(*command)
            self.assertGreater(e2e.final(output)['test']['accuracy'], 0.6)
            self.assertEqual(e2e.metrics(output, 'run')[0]['model'], 'own')
            self.assertIn(b'norms.0.running_mean', (output / 'model.safetensors').read_bytes())
            # Buffers are part of a checkpoint: the resumed run is the uninterrupted one.
            again = self.folder / f'again{ranks}'
            shutil.copytree(output, again)
            self.checked(*command[:-1], again, '--resume', '--epochs', '8')
            whole = self.folder / f'whole{ranks}'
            self.checked(*command[:-1], whole, '--epochs', '8')
            self.assertEqual((again / 'checkpoint.safetensors').read_bytes(), (whole / 'checkpoint.safetensors').read_bytes())


if __name__ == '__main__':
    e2e.main()
