# SPDX-License-Identifier: Apache-2.0
"""strata-plan says what a run would need and trains nothing."""
import json
import pathlib
import subprocess
import time

import strata_e2e as e2e

PLANTED = 'planted:parts=4,within=0.8,nodes=40000,edges=400000,features=32,classes=4,train=20000,seed=1'
SMALL = ['--fanouts', '5,3', '--hidden', '32', '--batch-size', '200']
CLUSTER = 'machines=4,gpus=2,link=100Gbit/s,latency=10us,gpu-memory=40GiB,host-memory=64GiB'


def memory_of(process):
    """(bytes that belong to it only, bytes that it shares with the other ranks), as Linux counts them now."""
    try:
        lines = pathlib.Path(f'/proc/{process}/status').read_text().splitlines()
    except OSError:   # it has ended
        return 0, 0
    kib = {name: int(value.split()[0]) for name, value in (line.split(':', 1) for line in lines) if name in ('RssAnon', 'RssShmem')}
    return 1024 * kib.get('RssAnon', 0), 1024 * kib.get('RssShmem', 0)


class Plan(e2e.Case):
    def plan(self, graph, *options, expect=0, ranks=1, json_text=True):
        """Also checks that nothing is written."""
        device = [] if 'gpus=' in ' '.join(map(str, options)) else ['--device', 'cpu']
        form = ['--json'] if json_text else []
        done = self.run_program(e2e.mpirun_command(ranks, ['--graph', graph, *device, *SMALL, *options, *form], 'strata-plan'))
        self.assertEqual(done.returncode, expect, done.stderr + done.stdout)
        return json.loads(done.stdout.splitlines()[-1]) if expect == 0 and json_text else done.stdout + done.stderr

    def test_tells_what_a_cluster_would_do(self):
        text = self.plan(PLANTED, '--cluster', CLUSTER, json_text=False)
        for word in ('4 machines of 2 GPUs', '100.0 Gbit/s per rank', 'training up to', 'every GPU', 'neighbors, hop 2', 'limited by', 'epoch'):
            self.assertIn(word, text)

    def test_sees_more_leave_the_more_machines_there_are(self):
        plans = [self.plan(PLANTED, '--cluster', CLUSTER.replace('machines=4', f'machines={m}')) for m in (1, 2, 4)]
        remote = [plan['rows']['remote'] / plan['rows']['nodes'] for plan in plans]
        self.assertEqual(remote[0], 0)
        self.assertLess(remote[1], remote[2])
        self.assertEqual(plans[0]['efficiency'], 1)
        self.assertLess(plans[2]['efficiency'], 1)
        self.assertEqual([plan['ranks'] for plan in plans], [2, 4, 8])

    def test_counts_what_a_run_then_sends(self):
        graph = self.build(PLANTED.replace('planted:parts=4,within=0.8', 'synthetic:kind=sbm'), 2, 'parts2')
        kept = ['--replicate-graph', 'off', '--halo-cache', '0', '--ranks-per-machine', '1']
        plan = self.plan(graph, '--cluster', 'machines=2,ranks=1', *kept[:4])
        output, _ = self.train(graph, *SMALL, *kept, '--epochs', '1', '--eval-fanouts', '2,2', ranks=2)
        record, = e2e.metrics(output, 'traffic')
        for rank in record['ranks']:
            sent = [(hop['request_bytes'] + hop['answer_bytes']) / record['steps'] for hop in rank['neighbors']['hops']]
            for hop, bytes_sent in zip(plan['hops'], sent):
                self.assertAlmostEqual(hop['bytes'], bytes_sent, delta=0.1 * bytes_sent + 1)
            rows = (rank['features']['request_bytes'] + rank['features']['row_bytes']) / record['steps']
            self.assertAlmostEqual(plan['rows']['bytes'], rows, delta=0.1 * rows)
        self.assertEqual(plan['steps_per_epoch'], record['steps'])

    def most_memory(self, graph, *options, ranks):
        """What the ranks of a run on one machine hold at most, without the pages of programs and libraries, which can be read again."""
        command = e2e.mpirun_command(ranks, ['--graph', graph, '--output', self.folder / 'measured', '--device', 'cpu', *options])
        run = subprocess.Popen(command, env=e2e.ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        most = 0
        while run.poll() is None:
            try:
                children = pathlib.Path(f'/proc/{run.pid}/task/{run.pid}/children').read_text().split()
            except OSError:
                break
            held = [memory_of(child) for child in children]
            most = max(most, sum(own for own, _ in held) + max((shared for _, shared in held), default=0))
            time.sleep(0.01)
        self.assertEqual(run.wait(), 0)
        return most

    def test_counts_what_training_on_cpus_takes_beside_the_graph(self):
        graph = PLANTED.replace('features=32', 'features=256').replace('train=20000', 'train=12000')
        options = ['--fanouts', '10,10', '--hidden', '512', '--batch-size', '2000', '--epochs', '1', '--eval-fanouts', '5,5']
        plan = self.plan(graph, *options, ranks=2)
        taken = self.most_memory(graph, *options, ranks=2)
        self.assertLess(plan['host_bytes'], 1.5 * taken)
        self.assertLess(taken, 1.5 * plan['host_bytes'])
        self.assertGreater(plan['host_training_bytes'], 5 * (plan['host_bytes'] - plan['host_training_bytes']), 'the graph is small')
        smaller = self.plan(graph, *options, '--batch-size', '100')
        self.assertGreater(plan['host_training_bytes'] / 2 - smaller['host_training_bytes'], 50e6, 'not only the libraries count')

    def test_plans_for_a_graph_that_info_describes(self):
        info = self.run_program([e2e.BIN / 'strata-partition', 'info', '--json', 'synthetic:igbh,scale=0.0001,cols=16'])
        self.assertEqual(info.returncode, 0, info.stderr)
        (self.folder / 'graph.json').write_text(info.stdout)
        options = ['--model', 'rgcn', '--cluster', 'machines=2,gpus=2']
        described, made = [self.plan(graph, *options) for graph in (self.folder / 'graph.json', 'synthetic:igbh,scale=0.0001,cols=16')]
        self.assertEqual(described['steps_per_epoch'], made['steps_per_epoch'])
        self.assertAlmostEqual(described['rows']['nodes'] / made['rows']['nodes'], 1, delta=0.25)
        self.assertIn('--model sage', self.plan(self.folder / 'graph.json', '--cluster', 'machines=2', expect=2))

    def test_plans_for_the_machines_at_hand(self):
        plan = self.plan(PLANTED, '--ranks-per-machine', '1', ranks=2)
        self.assertEqual((plan['machines'], plan['ranks']), (2, 2))

    def test_takes_the_times_of_a_run(self):
        output, _ = self.train(PLANTED, *SMALL, '--epochs', '1', '--eval-fanouts', '2,2', '--pipeline', 'off')
        epoch, = e2e.metrics(output, 'epoch')
        plan = self.plan(PLANTED, '--cluster', f'machines=2,ranks=1,measured={output}')
        step = sum(epoch[f'{stage}_seconds'] for stage in ('sample', 'gather', 'compute')) / epoch['steps']
        self.assertAlmostEqual(plan['alone_seconds'], step, delta=0.02 * step)
        self.assertIn('measured', plan['basis'])
        text = self.plan(PLANTED, '--cluster', f'machines=2,measured={output}', '--hidden', '16', expect=2)
        self.assertIn('that run trained sage with hidden 32', text)

    def test_refuses_what_it_cannot_plan(self):
        for options, word in ((['--cluster', 'machine=2'], 'did you mean machines'), (['--cluster', 'machines=5'], '5 machines'),
                              (['--cluster', 'measured=/nowhere'], 'no metrics.jsonl')):
            self.assertIn(word, self.plan(PLANTED, *options, expect=2))
        for options, words in ((['machines=2,ranks=1', '--exchange', 'nccl'], ('--exchange nccl', '0 of 2 ranks')),
                               (['machines=1,gpus=2', '--exchange', 'nccl'], ('--exchange nccl', 'one machine')),
                               (['machines=2,gpus=2', '--exchange', 'nccl', '--sampler', 'labor'], ('nccl', '--sampler labor')),
                               (['machines=2,gpus=8', '--device', 'cpu'], ('--device cpu', '8 GPUs')),
                               (['machines=2', '--device', 'cuda'], ('--device cuda', 'no GPUs')),
                               (['gpus=8,ranks=4'], ('gpus=8', 'ranks=4')), (['machines=2,machines=1'], ("'machines' is given twice",)),
                               ([''], ('--cluster: there is nothing in it',)),
                               (['machines=2', '--ranks-per-machine', '7'], ('--ranks-per-machine 7', 'have 1 rank\n'))):
            text = self.plan(PLANTED, '--cluster', *options, expect=2)
            for word in words:
                self.assertIn(word, text)
        self.assertIn('planted:', self.plan('synthetic:kind=sbm,nodes=500,edges=4000,features=8,classes=3,seed=1', expect=2))
        _, done = self.train(PLANTED, '--cluster', 'machines=2', expect=2)
        self.assertIn('strata-plan', done.stderr)


if __name__ == '__main__':
    e2e.main()
