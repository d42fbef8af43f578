# SPDX-License-Identifier: Apache-2.0
"""Bad input is refused before work begins: the message names what is wrong and what to do, the exit code is 2."""
import json
import os
import re
import shutil

import h5py

import strata_e2e as e2e

SPEC = 'synthetic:kind=sbm,nodes=500,edges=4000,features=8,classes=3,seed=1'


class Refusals(e2e.Case):
    def setUp(self):
        super().setUp()
        self.graph = self.build(SPEC, 2)

    def refuse(self, words, *options, graph=None, ranks=1, output=None, code=2):
        _, done = self.train(graph or self.graph, *options, ranks=ranks, output=output, expect=code, timeout=60)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_options(self):
        """Others are among the mistakes of test_mistakes.py."""
        self.refuse(['--eval-fanouts'], '--fanouts', '5,5', '--eval-fanouts', '5')
        self.refuse(['--sampler'], '--sampler', 'ladies')
        self.refuse(['no edge weights', 'weights=uniform'], '--sampler', 'weighted', ranks=2)
        self.refuse(['--sampler-device'], '--sampler-device', 'gpu')
        self.refuse(['--sampler-device cuda', '--device cuda'], '--sampler-device', 'cuda')
        self.refuse(['--batch-size', 'at most'], '--batch-size', '99999999999999999999')
        self.refuse(['--lr', 'inf'], '--lr', 'inf')
        self.refuse(['--weight-decay', 'inf'], '--weight-decay', 'inf')
        self.refuse(['--hidden', '00012', 'leading zero'], '--hidden', '00012')
        self.refuse(['--seed', '-1'], '--seed', '-1')

    def test_placement(self):
        self.refuse(['--placement', '110 percent', 'features=10/40/50'], '--placement', 'features=10/40/60')
        self.refuse(['--placement replicate', 'no rank computes on a GPU', '--device cuda'], '--placement', 'replicate', ranks=2)
        self.train(self.graph, '--placement', 'host', '--epochs', '1')

    def test_what_needs_gpus_is_refused_before_the_graph_is_read(self):
        absent = self.folder / 'absent'
        for ranks, option, value in ((1, '--cuda-graph', 'on'), (1, '--sm-split', '20,100'), (2, '--placement', 'stripe'), (3, '--cuda-graph', 'on')):
            self.refuse_once([f'{option} {value} has no effect: no rank computes on a GPU', 'Leave it out'], option, value,
                             '--ranks-per-machine', '1', graph=absent, ranks=ranks)
        for machines, why in (([], 'one machine'), (['--ranks-per-machine', '1'], '0 of 2 ranks')):
            self.refuse_once(['--exchange nccl is not possible here: ', why, '--exchange auto'], '--exchange', 'nccl', *machines, graph=absent, ranks=2)

    def refuse_once(self, words, *options, graph, ranks):
        """All ranks alike, so that one speaks for all."""
        _, done = self.train(graph, *options, ranks=ranks, expect=2, timeout=60)
        told = ' '.join(done.stderr.split())
        for word in words:
            self.assertIn(word, told)
        self.assertEqual(told.count('strata-train: '), 1, told)
        self.assertNotIn('rank 1', told)

    def test_config_file(self):
        config = self.folder / 'job.toml'
        config.write_text('hidden = 8\nfanouts = [3, 2]\nepochs = 1\n')
        output, _ = self.train(self.graph, '--config', config)
        run = e2e.metrics(output, 'run')[0]
        self.assertEqual((run['hidden'], run['fanouts']), (8, [3, 2]))
        config.write_text('[model]\nhidden = 8\nfanouts = [3, 2]\n[training]\nepochs = 1\n')
        output, _ = self.train(self.graph, '--config', config, '--hidden', '4')
        run = e2e.metrics(output, 'run')[0]
        self.assertEqual((run['hidden'], run['fanouts']), (4, [3, 2]), 'the command line wins')
        for text, words in (('epochs = []\n', [':1:10: epochs', 'an array is not an integer']),
                            ('lr = 0.00 3\n', [':1:']),
                            ('\nhidden = 00012\n', [':2:']),
                            ('hidden = 8\nhidden = 9\n', [':2:', 'hidden']),
                            ('weight-decay = inf\n', [':1:16: weight-decay: inf is not finite']),
                            ('epochs = 0\n', ['--epochs: 0', ':1:1)'])):
            config.write_text(text)
            self.refuse([str(config), *words], '--config', config)

    def test_no_partition_directory(self):
        self.refuse([str(self.folder), 'strata-partition build'], graph=self.folder)
        self.refuse(['nowhere'], graph=self.folder / 'nowhere')

    def copy(self):
        copy = self.folder / f'copy{len(list(self.folder.glob("copy*")))}'
        shutil.copytree(self.graph, copy)
        return copy

    def part_of(self, directory, part=1):
        files = sorted(path for path in directory.iterdir() if path.suffix in ('.h5', '.hdf5'))
        return files[part]

    def test_missing_part(self):
        graph = self.copy()
        part = self.part_of(graph)
        part.unlink()
        self.refuse([part.name], graph=graph)

    def test_truncated_and_foreign_part(self):
        graph = self.copy()
        part = self.part_of(graph)
        whole = part.read_bytes()
        part.write_bytes(whole[:len(whole) // 2])
        self.refuse([part.name], graph=graph, ranks=2)
        part.write_bytes(b'not HDF5 at all')
        self.refuse([part.name], graph=graph)
        other = self.build(SPEC.replace('seed=1', 'seed=2'), 2, 'other')
        shutil.copy(self.part_of(other), part)
        self.refuse([part.name], graph=graph)

    def test_damaged_part_of_another_machine(self):
        graph = self.copy()
        part = self.part_of(graph)
        with h5py.File(part, 'r+') as contents:
            contents['/edges/node__to__node/indices'][17] = 500
        _, done = self.train(graph, '--ranks-per-machine', '1', '--replicate-graph', 'off', '--halo-cache', '0', ranks=2, expect=2, timeout=60)
        told = [line for line in done.stderr.splitlines() if line.startswith('strata-train:')]
        self.assertEqual(len(told), 1, done.stderr)
        for words in ('rank 1 (host ', part.name, '/edges/node__to__node/indices'):
            self.assertIn(words, told[0])
        self.assertIn('strata-partition verify', done.stderr)

    def test_changed_features(self):
        graph = self.copy()
        part = self.part_of(graph)
        with h5py.File(part, 'r') as contents:
            place = contents['/nodes/node/feat'].id.get_offset() + 1234
        damaged = bytearray(part.read_bytes())
        damaged[place] ^= 1
        part.write_bytes(damaged)
        self.refuse([part.name, '/nodes/node/feat', 'changed'], graph=graph, ranks=2)

    def test_newer_version(self):
        graph = self.copy()
        manifest = graph / 'manifest.json'
        contents = json.loads(manifest.read_text())
        contents['version'] = 99
        manifest.write_text(json.dumps(contents))
        self.refuse(['version', '99'], graph=graph)

    def test_more_machines_than_parts(self):
        self.refuse(['machines', 'parts'], '--ranks-per-machine', '1', ranks=3)

    def test_a_refused_run_keeps_the_run_that_it_would_replace(self):
        job = ['--fanouts', '3,3', '--hidden', '8', '--epochs', '1']
        output, _ = self.train(self.graph, *job)
        before = self.contents(output)
        for ranks, options in ((1, ['--cuda-graph', 'on']), (1, ['--sampler-device', 'cuda']), (2, ['--exchange', 'nccl']),
                               (2, ['--ranks-per-machine', '1', '--exchange', 'nccl']),
                               (3, ['--ranks-per-machine', '1']), (3, ['--ranks-per-machine', '2']), (1, ['--metric', 'roc_auc']),
                               (1, ['--init-from', self.folder])):
            self.train(self.graph, *job, '--overwrite', *options, ranks=ranks, output=output, expect=2)
            self.assertEqual(self.contents(output), before, f'{ranks} ranks {options}')
        self.train(self.graph, *job, '--overwrite', '--seed', '5', ranks=2, output=output)
        after = self.contents(output)
        self.assertEqual(after.keys(), before.keys(), 'one run is there')
        for name in before:
            self.assertNotEqual(after[name], before[name], name)
        self.assertEqual([record['seed'] for record in e2e.metrics(output, 'run')], [5])
        self.assertIn('epoch 1/1', (output / 'train.log').read_text())

    def contents(self, output):
        return {path.name: path.read_bytes() for path in output.iterdir() if path.name not in ('strata.lock', 'train.new.log')}

    def test_options_between_machines_are_warned_of_where_they_have_no_effect(self):
        job = ['--fanouts', '3,3', '--hidden', '8', '--epochs', '1']
        between = ['--halo-cache', '1GiB', '--replicate-graph', 'on', '--row-exchange-precision', 'bf16', '--exchange', 'mpi']
        _, alone = self.train(self.graph, *job, *between)
        for option in between[::2]:
            self.assertRegex(alone.stderr + alone.stdout, f'{option} .* has no effect: the run has one machine')
        _, two = self.train(self.graph, *job, *between, '--ranks-per-machine', '1', ranks=2)
        self.assertNotIn('no effect', two.stderr + two.stdout)
        _, two = self.train(self.graph, *job, '--row-exchange-precision', 'bf16', '--feature-format', 'i8', '--halo-cache', '1',
                            '--ranks-per-machine', '1', ranks=2)
        for words in ('--row-exchange-precision bf16 has no effect: compressed', '--halo-cache 1 has no effect: a feature row'):
            self.assertEqual((two.stderr + two.stdout).count(words), 1, words)

    def test_the_cache_answers_what_it_is_said_to_answer(self):
        graph = 'planted:parts=2,within=0.8,nodes=8000,edges=24000,features=16,classes=4,train=800,seed=1'
        output, done = self.train(graph, '--fanouts', '3,3,3', '--hidden', '8', '--epochs', '1', '--batch-size', '50', '--halo-cache', '64MiB',
                                  '--ranks-per-machine', '1', '--replicate-graph', 'off', ranks=2)
        for rank in e2e.metrics(output, 'traffic')[-1]['ranks']:
            self.assertEqual(rank['features']['request_bytes'] + rank['features']['row_bytes'], 0, 'all of 8000 nodes fit')

    def test_no_gpu(self):
        done = self.run_program(e2e.mpirun_command(1, ['--graph', self.graph, '--output', self.folder / 'gpu', '--device', 'cuda']))
        if done.returncode == 0:
            self.skipTest('this machine has a GPU')
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('--device', done.stderr)

    def test_unwritable_output(self):
        blocked = self.folder / 'file'
        blocked.write_text('')
        self.refuse(['--output'], output=blocked / 'run')
        self.refuse(['--trace: cannot write', 'nowhere: no such directory'], '--trace', self.folder / 'nowhere' / 'trace.json')
        (self.folder / 'folder.json').mkdir()
        self.refuse(['--trace: cannot write'], '--trace', self.folder / 'folder.json')

    def test_nothing_is_left_in_shared_memory(self):
        for options, code in ((['--epochs', '1', '--fanouts', '3,3'], 0), (['--fanouts', '5,-2'], 2)):
            command = e2e.mpirun_command(2, ['--graph', self.graph, '--device', 'cpu', '--output', self.folder / f'run{code}', *options])
            at = command.index(str(e2e.BIN / 'strata-train'))
            done = self.run_program([*command[:at], 'sh', '-c', 'echo "pid $$"; exec "$@"', 'sh', *command[at:]])
            self.assertEqual(done.returncode, code, done.stderr)
            pids = re.findall(r'pid (\d+)', done.stdout)
            self.assertEqual(len(pids), 2, done.stdout)
            self.assertEqual([name for name in os.listdir('/dev/shm') if name.startswith(tuple(f'strata-{pid}-' for pid in pids))], [])

    def test_resume_without_checkpoint(self):
        self.refuse(['no such directory', '--resume'], '--resume')

    def test_resume_with_another_graph(self):
        output, _ = self.train(self.graph, '--epochs', '1')
        other = self.build(SPEC.replace('nodes=500', 'nodes=400'), 2, 'other')
        self.refuse(['is of another run: --graph', 'Resume with the same graph'], '--epochs', '2', '--resume',
                    graph=other, output=output)
        again = self.build(SPEC, 3, 'again')
        self.train(again, '--epochs', '2', '--resume', output=output)


if __name__ == '__main__':
    e2e.main()
