# SPDX-License-Identifier: Apache-2.0
"""The weights of a trained model, loaded into PyG, give the predictions of strata-train predict."""
import gzip
import shutil
import unittest

import numpy as np

import strata_e2e as e2e

try:
    import torch
    import torch_geometric.nn as pyg
except ImportError:
    pyg = None


def read_safetensors(path):
    """The format in four lines, so that the test needs no package for it."""
    import json
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], 'little')
    header = json.loads(raw[8:8 + size])
    header.pop('__metadata__', None)
    return {name: torch.frombuffer(bytearray(raw[8 + size + t['data_offsets'][0]:8 + size + t['data_offsets'][1]]),
                                   dtype=torch.float32).reshape(t['shape']) for name, t in header.items()}


@unittest.skipIf(pyg is None, 'torch and torch_geometric are not installed')
class Pyg(e2e.Case):
    @e2e.needs_data('cora')
    def test_same_predictions(self):
        def table(path):
            return np.loadtxt(gzip.open(e2e.DATA / 'cora' / 'raw' / path), delimiter=',')

        features = torch.tensor(table('node-feat.csv.gz'), dtype=torch.float32)
        features = features / features.sum(1, keepdim=True).clamp(min=1e-30)
        edges = torch.tensor(table('edge.csv.gz').T, dtype=torch.int64)
        edges = torch.cat([edges, edges.flip(0)], 1)
        graph = self.build(f'ogb:{e2e.DATA / "cora"}', 3, None, '--normalize-features')
        for model, options, convolution, shape in [('sage', [], pyg.models.GraphSAGE, {}), ('gcn', [], pyg.models.GCN, {}),
                                                   ('sage', ['--aggregate', 'max'], pyg.models.GraphSAGE, {'aggr': 'max'}),
                                                   ('gat', ['--heads', '4'], pyg.models.GAT, {'heads': 4}),
                                                   ('gin', [], pyg.models.GIN, {'train_eps': True})]:
            output, _ = self.train(graph, '--model', model, *options, '--fanouts', '10,10', '--hidden', '32', '--epochs', '5', '--lr',
                                   '0.01', ranks=2)
            network = convolution(in_channels=features.shape[1], hidden_channels=32, num_layers=2, out_channels=7, **shape).eval()
            network.load_state_dict(read_safetensors(output / 'model.safetensors'))
            with torch.no_grad():
                expected = network(features, edges).numpy()
            written = np.load(self.predict(output, graph, ranks=2))
            self.assertEqual(written.shape, expected.shape)
            np.testing.assert_allclose(written, expected, rtol=2e-4, atol=2e-5)

    @e2e.needs_data('cora')
    def test_same_predictions_on_a_graph_with_loops(self):
        """GCNConv and GATConv replace loops that the graph has; they are not counted twice, in training, too."""
        folder = self.folder / 'loops'
        shutil.copytree(e2e.DATA / 'cora', folder)
        edges = np.loadtxt(gzip.open(folder / 'raw' / 'edge.csv.gz'), delimiter=',', dtype=np.int64)
        looped = np.arange(0, 2708, 3)
        edges = np.concatenate([edges, np.stack([looped, looped], 1)])
        with gzip.open(folder / 'raw' / 'edge.csv.gz', 'wt') as file:
            np.savetxt(file, edges, '%d', delimiter=',')
        with gzip.open(folder / 'raw' / 'num-edge-list.csv.gz', 'wt') as file:
            file.write(f'{len(edges)}\n')
        features = torch.tensor(np.loadtxt(gzip.open(folder / 'raw' / 'node-feat.csv.gz'), delimiter=','), dtype=torch.float32)
        features = features / features.sum(1, keepdim=True).clamp(min=1e-30)
        both = torch.tensor(np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0).T)
        graph = self.build(f'ogb:{folder}', 3, 'looped', '--normalize-features')
        job = ['--hidden', '16', '--epochs', '3', '--lr', '0.01', '--dropout', '0', '--log-every', '1']
        for model, convolution, shape in ('gcn', pyg.models.GCN, {}), ('gat', pyg.models.GAT, {'heads': 4}):
            self.compare_with_loops(graph, [*job, '--model', model], features, both,
                                    convolution(in_channels=features.shape[1], hidden_channels=16, num_layers=2, out_channels=7, **shape))

    def compare_with_loops(self, graph, job, features, edges, network):
        losses = []
        for ranks, options in ((1, []), (2, ['--ranks-per-machine', '1', '--replicate-graph', 'off']), (2, ['--ranks-per-machine', '1'])):
            output, _ = self.train(graph, *job, '--fanouts', '-1,-1', '--global-batch-size', '200', *options, ranks=ranks)
            network.eval().load_state_dict(read_safetensors(output / 'model.safetensors'))
            with torch.no_grad():
                expected = network(features, edges).numpy()
            np.testing.assert_allclose(np.load(self.predict(output, graph, *options, ranks=ranks)), expected, rtol=2e-4, atol=2e-5)
            losses.append(e2e.step_losses(output))
        for other in losses[1:]:
            np.testing.assert_allclose(other, losses[0], rtol=1e-4)


if __name__ == '__main__':
    e2e.main()
