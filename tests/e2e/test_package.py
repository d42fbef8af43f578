# SPDX-License-Identifier: Apache-2.0
"""The installed package: the C++ examples find it, build outside the tree, and do what their READMEs say."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import strata_e2e as e2e

BUILD = e2e.BIN.parent
SPEC = 'synthetic:kind=sbm,nodes=900,edges=9000,features=12,classes=4,seed=5'
CMAKE = shutil.which('cmake', path=f'{os.environ.get("STRATA_PYTHON_ENV", "")}/bin:{os.environ["PATH"]}')


@unittest.skipUnless(CMAKE, 'cmake is not on the PATH')
class Package(e2e.Case):
    @classmethod
    def setUpClass(cls):
        """One installation for all examples."""
        cls.installed = pathlib.Path(tempfile.mkdtemp(prefix='strata-package-'))
        cls.addClassCleanup(shutil.rmtree, cls.installed)
        subprocess.run([CMAKE, '--install', BUILD, '--prefix', cls.installed, '--component', 'development'], check=True,
                       stdout=subprocess.DEVNULL)

    def checked(self, *command, expect=0, timeout=1500, **environment):
        done = self.run_program(command, timeout, **environment)
        self.assertEqual(done.returncode, expect, done.stderr[-4000:] + done.stdout[-4000:])
        return done

    def build_example(self, name):
        """Builds a copy of it, so that it cannot lean on the tree; returns the folder of its programs. Nothing is optimized, which would
        take twice the time."""
        source, build = self.folder / 'source', self.folder / 'build'
        shutil.copytree(e2e.REPOSITORY / 'examples' / name, source)
        generator = ['-G', 'Ninja'] if shutil.which('ninja', path=str(pathlib.Path(CMAKE).parent) + ':' + os.environ['PATH']) else []
        self.checked(CMAKE, '-S', source, '-B', build, f'-DCMAKE_PREFIX_PATH={self.installed}', '-DCMAKE_BUILD_TYPE=', *generator)
        self.checked(CMAKE, '--build', build)
        return build

    def test_all_have_a_readme(self):
        for example in (e2e.REPOSITORY / 'examples').iterdir():
            if example.is_dir() and example.name != '__pycache__':
                self.assertTrue((example / 'README.md').exists(), example)
                if (example / 'CMakeLists.txt').exists():   # tests/python has those of Python
                    self.assertTrue(hasattr(self, f'test_{example.name}'), f'{example} has no test here')

    def test_random_walk(self):
        build = self.build_example('random_walk')
        told = self.checked(build / 'sample_random_walks', 'kind=sbm,nodes=2000,features=0').stdout
        self.assertEqual(told.count('256 dst nodes'), 3, told)

    def skip_without_rpc(self):
        if not (self.installed / 'include/strata/rpc').is_dir():
            self.skipTest('a build without extras has no rpc')

    def test_two_shards(self):
        self.skip_without_rpc()
        build = self.build_example('two_shards')
        launch = [e2e.MPIRUN, '-n', 2, '--oversubscribe', '--bind-to', 'none', build / 'two_shards']
        lines = self.checked(*launch, 'cpu').stdout.splitlines()
        self.assertRegex(lines[0], r'^cpu RPC total execution time: [\d.]+ Seconds$')
        self.assertRegex(lines[1], r'^cpu RPC, median of 10 more: [\d.]+ Seconds$')
        for arguments, words in ((['tpu'], 'neither cpu nor cuda'), ([], 'runs on two ranks')):
            told = self.checked(build / 'two_shards', *arguments, expect=2).stderr
            self.assertIn(words, told)

    @e2e.needs_data('facebook100')
    def test_split_model(self):
        self.skip_without_rpc()
        build = self.build_example('split_model')
        source = self.folder / 'school'
        self.checked(sys.executable, e2e.DATA / 'to_graphbolt.py', 'facebook100', source, '--schools', 'Bucknell39')
        lines = {}
        for ranks in (1, 2, 3):   # the first one is the unsplit model
            launch = [e2e.MPIRUN, '-n', ranks, '--oversubscribe', '--bind-to', 'none', build / 'split_model']
            lines[ranks] = self.checked(*launch, f'graphbolt:{source}', 15).stdout.splitlines()
        self.assertGreater(float(lines[1][-1].removeprefix('test accuracy ')), 0.85)
        self.assertEqual(lines[2], lines[1])
        self.assertEqual(lines[3], lines[1])
        self.assertIn('GRAPH', self.checked(build / 'split_model', expect=2).stderr)
        for epochs in ('-1', '0', '1.5', '4294967296'):
            self.assertIn('no number of epochs', self.checked(build / 'split_model', f'graphbolt:{source}', epochs, expect=2).stderr)

    def test_own_model(self):
        build = self.build_example('own_model')
        graph = self.build(SPEC, 2)
        job = ['--graph', graph, '--device', 'cpu', '--fanouts', '5,5', '--hidden', '16', '--batch-size', '50', '--epochs', '6', '--lr',
               '0.01']
        for ranks in (1, 2):
            output = self.folder / f'own{ranks}'
            launch = [e2e.MPIRUN, '-n', ranks, '--oversubscribe', '--bind-to', 'none', build / 'own_model']
            command = [*launch, *job, '--output', output]
            told = self.checked(*launch, *job, '--output', output)
            self.assertGreater(e2e.final(output)['test']['accuracy'], 0.6)
            self.assertEqual(e2e.metrics(output, 'run')[0]['model'], 'own')
            self.assertIn(b'norms.0.running_mean', (output / 'model.safetensors').read_bytes())
            self.compare_folders(output, graph, told.stdout)
            # The model is used as any other one.
            logits = self.folder / f'all{ranks}.npy'
            self.checked(*launch, 'predict', output, '--graph', graph, '--output', logits, '--device', 'cpu')
            self.assertEqual(len(np.load(logits)), 900)
            told = self.checked(*launch, 'evaluate', output, '--graph', graph, '--device', 'cpu').stdout
            self.assertIn(f'{e2e.final(output)["test"]["accuracy"]:.4f}', told)
            # Buffers are part of a checkpoint: the resumed run is the uninterrupted one.
            again = self.folder / f'again{ranks}'
            shutil.copytree(output, again)
            self.checked(*command[:-1], again, '--resume', '--epochs', '8')
            whole = self.folder / f'whole{ranks}'
            self.checked(*command[:-1], whole, '--epochs', '8')
            self.assertEqual((again / 'checkpoint.safetensors').read_bytes(), (whole / 'checkpoint.safetensors').read_bytes())
        self.refuse(build / 'own_model', self.folder / 'own1', graph)
        losses = [float(line.split()[-1]) for line in self.checked(build / 'own_types').stdout.splitlines()]
        self.assertEqual(len(losses), 5)
        self.assertLess(losses[-1], losses[0] - 0.5, losses)

    def compare_folders(self, own, graph, told):
        """A run of a program of one's own has the files of strata-train."""
        usual = self.folder / 'usual'
        if not usual.exists():
            self.train(graph, '--fanouts', '5,5', '--hidden', '16', '--epochs', '1', output=usual)
        self.assertEqual({path.name for path in own.iterdir()}, {path.name for path in usual.iterdir()})
        mine, theirs = (e2e.metrics(folder, 'run')[0] for folder in (own, usual))
        self.assertEqual(set(mine), set(theirs))
        self.assertEqual(set(mine['options']), set(theirs['options']))
        self.assertEqual(mine['options']['model'], 'own')
        config = (own / 'config.toml').read_text()
        self.assertIn('\n# model = "own"  # the program\n', config)
        self.assertIn('\nhidden = 16  # command line\n', config)
        for line in told.splitlines():
            self.assertIn(line, (own / 'train.log').read_text())

    def refuse(self, program, run, graph):
        """Each program says whose model a run has; messages have the program's name."""
        done = self.checked(program, '--graph', graph, '--model', 'gcn', expect=2)
        self.assertIn('own_model: --model has no effect', done.stderr)
        done = self.checked(program, 'predict', self.folder / 'usual', '--graph', graph, '--output', self.folder / 'x.npy', expect=2)
        self.assertRegex(done.stderr, r'is a model sage, not own\s+Call strata-train instead')
        for words in (['predict', run, '--graph', graph, '--output', self.folder / 'x.npy'], ['evaluate', run, '--graph', graph],
                      ['--graph', graph, '--init-from', run, '--fanouts', '5,5', '--hidden', '16', '--output', self.folder / 'x']):
            done = self.checked(e2e.BIN / 'strata-train', *words, '--device', 'cpu', expect=2)
            self.assertRegex(done.stderr, r'is a model own, not sage\s+Call the program that trained it')


class Pack(e2e.Case):
    """launch/pack replaces its own packs, and removes nothing else. Builds and installs nothing here."""

    def setUp(self):
        super().setUp()
        self.root = self.folder / 'root'
        shutil.copytree(e2e.REPOSITORY / 'launch', self.root / 'launch')
        for file in ('docs/clusters.md', 'LICENSE'):
            (self.root / file).parent.mkdir(exist_ok=True)
            shutil.copy(e2e.REPOSITORY / file, self.root / file)
        (self.root / 'launch/build').write_text('#!/bin/sh\n')
        cmake = self.folder / 'venv/bin/cmake'
        cmake.parent.mkdir(parents=True)
        cmake.write_text('#!/bin/sh\nmkdir -p "$4/bin" "$4/libexec"\n')   # --install BUILD --prefix FOLDER
        cmake.chmod(0o755)

    def pack(self, target, expect=0):
        done = self.run_program([self.root / 'launch/pack', '--preset', 'cpu', target], STRATA_PYTHON_ENV=str(self.folder / 'venv'))
        self.assertEqual(done.returncode, expect, done.stderr + done.stdout)
        self.assertEqual(list(self.folder.rglob('.strata-pack.*')), [], 'a temporary folder is left')
        return done

    def test_makes_folders_above_it_and_replaces_an_earlier_pack(self):
        target = self.folder / 'not/yet/there'
        self.pack(target)
        (target / 'from_before').touch()
        self.pack(target)
        self.assertFalse((target / 'from_before').exists())
        self.assertTrue((target / 'env.sh').exists() and (target / 'strata-run').exists())
        empty = self.folder / 'empty'
        empty.mkdir()
        self.pack(empty)
        self.assertTrue((empty / 'env.sh').exists())

    def test_refuses_folders_of_others(self):
        mine, file = self.folder / 'mine', self.folder / 'file'
        mine.mkdir()
        (mine / 'env.sh').write_text('export MINE=1\n')   # the name of a file in a pack
        file.write_text('mine')
        for target in (mine, file, self.root, self.root / 'launch', self.root / 'launch' / '..' / 'docs'):
            before = sorted(self.folder.rglob('*'))
            self.assertIn('no earlier pack', self.pack(target, expect=1).stderr)
            self.assertEqual(sorted(self.folder.rglob('*')), before)


if __name__ == '__main__':
    e2e.main()
