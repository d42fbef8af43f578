#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reference of accuracy.py: PyG's model trained on the full batch, test accuracy at the best validation epoch.

    reference.py GRAPHBOLT_FOLDER [--model sage|gcn] [--layers 2] [--hidden 256] [--dropout 0.3] [--lr 0.005] [--epochs 200]
                 [--seeds 5]

Needs torch_geometric; runs on the CPU.
"""
import argparse
import pathlib
import statistics

import numpy
import torch
import torch_geometric.nn
import torch_geometric.utils

MODELS = {'sage': torch_geometric.nn.GraphSAGE, 'gcn': torch_geometric.nn.GCN}


def array(folder, name):
    return torch.from_numpy(numpy.load(folder / 'data' / f'{name}.npy'))


def test_score(arguments, graph, splits, seed):
    torch.manual_seed(seed)
    features, edges, num_classes = graph
    model = MODELS[arguments.model](features.shape[1], arguments.hidden, arguments.layers, num_classes, dropout=arguments.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.lr)
    best, test = -1.0, 0.0
    for _ in range(arguments.epochs):
        model.train()
        optimizer.zero_grad()
        seeds, labels = splits['train']
        torch.nn.functional.cross_entropy(model(features, edges)[seeds], labels).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            predicted = model(features, edges).argmax(1)
        valid, now = ((predicted[seeds] == labels).float().mean().item() for seeds, labels in (splits['val'], splits['test']))
        if valid > best:
            best, test = valid, now
    return test


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--model', choices=MODELS, default='sage')
    parser.add_argument('--layers', type=int, default=2)
    parser.add_argument('--hidden', type=int, default=256)
    parser.add_argument('--dropout', type=float, default=0.3)
    parser.add_argument('--lr', type=float, default=0.005)
    parser.add_argument('--epochs', type=int, default=200)
    parser.add_argument('--seeds', type=int, default=5)
    arguments = parser.parse_args()
    splits = {name: (array(arguments.folder, f'{name}_seeds'), array(arguments.folder, f'{name}_labels'))
              for name in ('train', 'val', 'test')}
    num_classes = max(int(labels.max()) for _, labels in splits.values()) + 1
    features = array(arguments.folder, 'feat')
    # The transpose as a sparse matrix, which spares PyG a copy of the features for every edge.
    edges = torch_geometric.utils.to_torch_csr_tensor(array(arguments.folder, 'edges').flip(0), size=(len(features), len(features)))
    graph = (features, edges, num_classes)
    scores = [test_score(arguments, graph, splits, seed) for seed in range(arguments.seeds)]
    print(f'{arguments.folder.name} {arguments.model}: {statistics.mean(scores):.4f} +- {statistics.pstdev(scores):.4f}  '
          f'({", ".join(f"{score:.4f}" for score in scores)})')


if __name__ == '__main__':
    main()
