# SPDX-License-Identifier: Apache-2.0
"""metrics.jsonl has the records and fields that docs/metrics.md names, no more and no less."""
import os
import re
import signal
import time

import strata_e2e as e2e
from test_killed import Job

SPEC = 'synthetic:kind=sbm,nodes=500,edges=4000,features=8,classes={classes},seed=1'
OF_OTHER_TASKS = {'rmse', 'mae', 'r2', 'mrr', 'hits_10', 'ap'}  # scores of runs that do not learn classes of nodes
KINDS = ['run', 'first_step', 'step', 'epoch', 'ranks', 'evaluation', 'classes', 'final']
SMALL = ['--fanouts', '3,2', '--hidden', '8', '--epochs', '2', '--log-every', '1']


def documented_fields():
    """{section of docs/metrics.md: names in the first column of its table}."""
    fields = {}
    for section in (e2e.REPOSITORY / 'docs/metrics.md').read_text().split('\n## ')[1:]:
        title, *lines = section.splitlines()
        names = (re.findall(r'`([\w.]+)`', line.split('|')[1]) for line in lines if line.startswith('| `'))
        fields[title.strip()] = {name for row in names for name in row}
    return fields


def dotted(record):
    """The record's fields, those of its parts as part.field."""
    return {f'{name}.{part}' if part else name for name, value in record.items()
            for part in (value if isinstance(value, dict) else [''])}


class Metrics(e2e.Case):
    def test_follows_its_document(self):
        fields = documented_fields()
        self.assertEqual(set(fields), {*KINDS, 'arrival', 'exchange', 'traffic', 'traffic: a rank', 'traffic: a hop', 'ranks: a rank', 'sm_split', 'targets', 'links', 'Scores'})
        output, _ = self.train(SPEC.format(classes=3), *SMALL)
        for kind in KINDS:
            records = e2e.metrics(output, kind)
            self.assertTrue(records, kind)
            for record in records:
                self.assertEqual(set(record), fields[kind] | {'time'}, kind)
                self.assertAlmostEqual(record['time'], time.time(), delta=300)
                for split in {'valid', 'test'} & set(record):
                    self.assertEqual(set(record[split]) | OF_OTHER_TASKS, fields['Scores'], f'{kind} {split}')
        self.assertEqual(set(e2e.metrics(output, 'ranks')[0]['ranks'][0]), fields['ranks: a rank'])

    def test_tells_of_every_rank_and_class(self):
        output, _ = self.train(SPEC.format(classes=3), *SMALL, ranks=2)
        epochs, ranks = e2e.metrics(output, 'epoch'), e2e.metrics(output, 'ranks')
        self.assertEqual([record['epoch'] for record in ranks], [1, 2])
        for epoch, record in zip(epochs, ranks):
            first, second = record['ranks']
            self.assertEqual((first['rank'], second['rank']), (0, 1))
            self.assertEqual((first['device'], second['device']), ('cpu', 'cpu'))
            self.assertEqual(first['compute_seconds'], epoch['compute_seconds'])
            self.assertGreater(second['peak_host_bytes'], 1 << 20)
        classes = e2e.metrics(output, 'classes')[-1]
        final = e2e.final(output)
        self.assertEqual(classes['epoch'], final['best_epoch'])
        self.assertEqual(sum(classes['labelled']), final['test']['nodes'])
        self.assertEqual([sum(row) for row in classes['confusion']], classes['labelled'])
        self.assertEqual([sum(column) for column in zip(*classes['confusion'])], classes['predicted'])
        self.assertAlmostEqual(sum(classes['correct']) / final['test']['nodes'], final['test']['accuracy'])

    def test_tells_what_machines_exchanged(self):
        graph = self.build(SPEC.format(classes=3), 2)
        output, _ = self.train(graph, *SMALL, '--ranks-per-machine', '1', ranks=2)
        records = e2e.metrics(output, 'exchange')
        self.assertEqual([dotted(record) for record in records], [documented_fields()['exchange'] | {'time'}])

    def test_counts_what_is_kept(self):
        graph = self.build(SPEC.format(classes=3), 2)
        for size in ('auto', '1MiB', '0'):
            output, _ = self.train(graph, *SMALL, '--ranks-per-machine', '1', '--replicate-graph', 'off', '--halo-cache', size, ranks=2)
            exchange, = e2e.metrics(output, 'exchange')
            self.assertEqual(exchange['features']['cached'] > 0, size != '0', size)

    def test_tells_what_each_rank_sent_in_each_epoch(self):
        graph = self.build(SPEC.format(classes=3), 2)
        output, _ = self.train(graph, *SMALL, '--ranks-per-machine', '1', '--replicate-graph', 'off', '--halo-cache', '0', ranks=2)
        fields, records = documented_fields(), e2e.metrics(output, 'traffic')
        self.assertEqual([record['epoch'] for record in records], [1, 2])
        total, rows, row_bytes = 0, 0, 0
        for record in records:
            self.assertEqual(set(record), fields['traffic'] | {'time'})
            self.assertEqual([rank['rank'] for rank in record['ranks']], [0, 1])
            hops = [rank['neighbors']['hops'] for rank in record['ranks']]
            for rank, mine in zip(record['ranks'], hops):
                self.assertEqual(dotted(rank), fields['traffic: a rank'])
                self.assertEqual([set(hop) for hop in mine], [fields['traffic: a hop']] * 2)
            sent = [sum(hop['request_bytes'] + hop['answer_bytes'] for hop in mine) for mine in hops]
            received = [sum(hop['received_bytes'] for hop in mine) for mine in hops]
            self.assertEqual(sent, received[::-1], 'what one of two machines sends, the other one receives')
            # counts, ids, numbers of picks, picks: four exchanges per hop and batch
            self.assertEqual({hop['rounds'] for mine in hops for hop in mine}, {4 * record['steps']})
            first, second = (rank['features'] for rank in record['ranks'])
            self.assertEqual((first['rows_sent'], second['rows_sent']), (second['rows_received'], first['rows_received']))
            self.assertEqual(first['row_bytes'], first['rows_sent'] * 8 * 4)
            total += sum(sent)
            rows += first['remote'] + second['remote']
            row_bytes += sum(rank['features']['row_bytes'] + rank['features']['request_bytes'] for rank in record['ranks'])
        whole, = e2e.metrics(output, 'exchange')
        self.assertEqual(sum(hop['bytes'] for hop in whole['neighbors']['hops']), total)
        self.assertEqual((whole['features']['remote'], whole['features']['bytes']), (rows, row_bytes))

    def test_tells_waiting_for_a_slow_rank_from_computing(self):
        pause = 2.0
        job = Job(self.folder, 'slow', SPEC.format(classes=3).replace('nodes=500,edges=4000', 'nodes=20000,edges=200000'),
                  ['--batch-size', '10', '--epochs', '1', '--log-every', '1'], ranks=2)
        job.wait_for(lambda: job.records('step') > 5)
        os.kill(job.ranks[1], signal.SIGSTOP)
        time.sleep(pause)
        os.kill(job.ranks[1], signal.SIGCONT)
        self.assertEqual(job.process.wait(timeout=120), 0, job.log.read_text())
        epoch, = e2e.metrics(job.output, 'epoch')
        self.assertGreater(epoch['sum_seconds'], 0.9 * pause, epoch)
        self.assertLess(epoch['compute_seconds'], epoch['seconds'] - 0.9 * pause, epoch)
        self.assertAlmostEqual(epoch['compute_seconds'] + epoch['sum_seconds'] + epoch['wait_seconds'], epoch['seconds'], places=3)

    def test_counts_records(self):
        output, _ = self.train(SPEC.format(classes=2), *SMALL, ranks=2)
        run = e2e.metrics(output, 'run')
        self.assertEqual(len(run), 1)
        self.assertEqual((run[0]['ranks'], run[0]['device']), (2, 'cpu'))
        steps = run[0]['steps_per_epoch']
        self.assertEqual([(r['epoch'], r['step']) for r in e2e.metrics(output, 'step')],
                         [(e, s) for e in (1, 2) for s in range(1, steps + 1)])
        self.assertEqual([r['epoch'] for r in e2e.metrics(output, 'epoch')], [1, 2])
        self.assertEqual([r['epoch'] for r in e2e.metrics(output, 'evaluation')], [1, 2])
        self.assertIsNotNone(e2e.final(output)['valid']['roc_auc'])

    def test_has_null_where_there_is_no_value(self):
        output, _ = self.train(SPEC.format(classes=3), *SMALL, '--epochs', '1')
        self.assertIsNone(e2e.final(output)['test']['roc_auc'])
        self.assertNotIn('NaN', (output / 'metrics.jsonl').read_text())


if __name__ == '__main__':
    e2e.main()
