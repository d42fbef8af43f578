# SPDX-License-Identifier: Apache-2.0
"""What people get wrong about inputs and with strata-partition."""
import gzip

import numpy as np

from mistake import Mistake

SPEC = 'synthetic:kind=sbm,nodes=300,edges=2400,features=8,classes=3,seed=1'

METADATA = '''
graph:
  nodes: [{num: 6}]
  edges: [{format: csv, path: edges.csv}]
feature_data: [{domain: node, name: feat, format: numpy, path: x.npy}]
tasks:
  - name: node_classification
    train_set: [{data: [{name: seeds, format: numpy, path: train.npy}, {name: labels, format: numpy, path: labels.npy}]}]
'''


def arrays(folder, **changed):
    """A folder for npy:, with some arrays other than they should be; None leaves one out."""
    folder.mkdir()
    sound = {'edge_index': np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), 'x': np.ones((6, 4), np.float32),
             'y': np.array([0, 1, 0, 1, 0, 1]), 'train': np.array([0, 1]), 'valid': np.array([2, 3]), 'test': np.array([4, 5])}
    for name, array in {**sound, **changed}.items():
        if array is not None:
            np.save(folder / f'{name}.npy', array)
    return folder


def graphbolt(folder, text):
    folder.mkdir()
    (folder / 'metadata.yaml').write_text(text)
    (folder / 'edges.csv').write_text('0,1\n1,2\n')
    np.save(folder / 'x.npy', np.ones((6, 4), np.float32))
    np.save(folder / 'train.npy', np.array([0, 1]))
    np.save(folder / 'labels.npy', np.array([0, 1]))


def ogb(folder):
    (folder / 'raw').mkdir(parents=True)
    for name, text in ('num-node-list', '3\n'), ('edge', '0,1\n1,2\n'), ('node-feat', '1\n2\nnan\n'), ('node-label', '0\n1\n1\n'):
        (folder / f'raw/{name}.csv.gz').write_bytes(gzip.compress(text.encode()))


def prepare(folder, shell):
    """Makes the files that the lines below name."""
    (folder / 'empty').mkdir()
    arrays(folder / 'sound')
    arrays(folder / 'pairs', edge_index=np.array([[0, 1], [1, 2], [2, 3]]))
    arrays(folder / 'floats', edge_index=np.array([[0., 1.], [1., 2.]]))
    arrays(folder / 'beyond', edge_index=np.array([[0, 1], [1, 6]]))
    arrays(folder / 'holes', x=np.array([[1, np.nan]] * 6, np.float32))
    arrays(folder / 'short', y=np.array([0, 1, 0]))
    arrays(folder / 'regression', y=np.array([0.5, 1.25, 0, 1, 0, 1]))
    arrays(folder / 'onehot', y=np.eye(2, dtype=np.int64)[[0, 1, 0, 1, 0, 1]])
    arrays(folder / 'mask', train=np.array([1, 1, 0, 0, 0, 0]))
    arrays(folder / 'overlap', valid=np.array([1, 2]))
    arrays(folder / 'named', valid=None, val_mask=np.array([0, 0, 1, 1, 0, 0], bool))
    arrays(folder / 'bigendian', x=np.ones((6, 4), '>f4'))
    arrays(folder / 'objects', y=np.array(['a'] * 6, object))
    arrays(folder / 'unvalidated', valid=None)
    arrays(folder / 'unlabelled', y=np.array([-1, 1, 0, 1, 0, 1]))
    cut = (folder / 'pairs/x.npy').read_bytes()[:-5]
    (arrays(folder / 'cut') / 'x.npy').write_bytes(cut)
    for name, relation, rows in ('typed', 'reader__reads__book', 4), ('misnamed', 'reader_reads_book', 4), ('typeless', 'reader__reads__film', 4), ('narrow', 'reader__reads__book', 3):
        for place, array in {f'edges/{relation}/edge_index': [[0, 3], [1, 0]], 'nodes/reader/x': np.ones((rows, 2), np.float32),
                             'nodes/reader/y': [0, 1, 0, 1], 'nodes/book/num_nodes': 2}.items():
            (folder / name / place).parent.mkdir(parents=True, exist_ok=True)
            np.save(folder / name / f'{place}.npy', np.array(array))
    graphbolt(folder / 'val_set', METADATA + '    val_set: []\n')
    graphbolt(folder / 'weights', METADATA.replace('feature_data: [', 'feature_data: [{domain: edge, name: weights, format: numpy, path: w.npy}, '))
    graphbolt(folder / 'features', METADATA.replace('name: feat,', 'name: x, format: numpy, path: x.npy}, {domain: node, name: other,'))
    ogb(folder / 'ogbset')
    for name, text in {'letters.csv': '0,1\n1,b\n', 'ragged.csv': '0,1\n1\n', 'huge.txt': '0 9000000000\n', 'half.graph': '3 2\n2\n1 3\n',
                       'bad.mtx': '1 2\n', 'parted.graph': '2 1\n2\n3\n', 'weights.csv': '0,1,-2\n'}.items():
        (folder / name).write_text(text)
    (folder / 'cut.csv.gz').write_bytes(gzip.compress(b'0,1\n' * 5000)[:-40])
    code, text = shell('strata-partition build --input npy:unvalidated --parts 1 --output unvalidated-parts; '
                       f'strata-partition build --input {SPEC} --parts 2 --output taken')
    assert code == 0, text


BUILD = 'strata-partition build --parts 1 --output p --input '

TABLE = (
    Mistake(f'strata-partition build --input {SPEC} --parts 0 --output p', ('--parts',)),
    Mistake(f'strata-partition build --input {SPEC} --part 2 --output p', ('--part', '--parts')),
    Mistake(f'strata-partition build {SPEC} --parts 2 --output p', ('unexpected argument synthetic:', 'Did you mean --input synthetic:')),
    Mistake(f'strata-partition --input {SPEC} --parts 2 --output p', ('unknown option --input', 'strata-partition build --input')),
    Mistake(f'strata-partition build --input {SPEC} --parts 2 --output taken', ('taken exists', '--force')),
    Mistake(f'strata-partition build --input {SPEC} --parts 2 --output no/p', ('no does not exist', 'mkdir')),
    Mistake(f'strata-partition build --input {SPEC} --parts 2 --output p --features f64', ('--features f64', 'bf16')),
    Mistake('strata-partition build --input ogb:nowhere --parts 2 --output p', ('nowhere: no such directory',)),
    Mistake(BUILD + 'graphbolt:feature', ('feature: no such directory', 'Did you mean features?')),
    Mistake('strata-partition build --input synthetic:node=300 --parts 2 --output p', ('node', 'nodes')),
    Mistake(BUILD + 'obg:ogbset', ("Did you mean 'ogb:'?",)),
    Mistake(BUILD + 'ogbset', ('what kind of graph', 'Did you mean ogb:ogbset?')),
    Mistake(BUILD + 'sound', ('what kind of graph', 'Did you mean npy:sound?')),
    Mistake(BUILD + 'val_set', ('Did you mean graphbolt:val_set?',)),
    Mistake(BUILD + 'graphbolt:val_set/metadata.yaml', ('val_set/metadata.yaml: a file, not a folder', 'Give its folder: val_set')),
    Mistake(BUILD + 'ogb:ogbset,wieght=0', ("unknown key 'wieght'", "Did you mean 'weight'?")),
    Mistake(BUILD + 'ogb:ogbset', ('node-feat.csv.gz', 'feature 0 of node 2 is nan')),
    Mistake(BUILD + 'graphbolt:val_set', ("no field 'val_set'", "Did you mean 'validation_set'?")),
    Mistake(BUILD + 'graphbolt:weights', ("edge feature 'weights' is not read", "Did you mean 'weight'?")),
    Mistake(BUILD + 'graphbolt:features', ('several node features', "'feat'")),
    Mistake(BUILD + 'npy:nowhere', ('nowhere: no such directory',)),
    Mistake(BUILD + 'npy:empty', ('empty: no edges', 'edge_index.npy')),
    Mistake(BUILD + 'npy:pairs', ('edges of shape (3, 2)', '(2, E)', 'edges.T')),
    Mistake(BUILD + 'npy:floats', ("edges of type 'f8'", 'int64')),
    Mistake(BUILD + 'npy:beyond', ('edge 1 goes from 1 to 6', '[0, 6)')),
    Mistake(BUILD + 'npy:holes', ('x.npy: feature 1 of node 0 is nan',)),
    Mistake(BUILD + 'npy:short', ('x.npy says 6 nodes, y.npy says 3',)),
    Mistake(BUILD + 'npy:regression', ('label 0.5 in row 0 is not a class', 'give them as targets.npy')),
    Mistake('strata-partition info npy:onehot > /dev/null', ('argmax', '--loss bce'), code=0),
    Mistake('strata-partition info npy:unvalidated > /dev/null', ('no validation nodes',), code=0),
    # graphs of several types
    Mistake(BUILD + 'npy:misnamed', ('reader_reads_book',)),
    Mistake(BUILD + 'npy:typeless', ('film',)),
    Mistake(BUILD + 'npy:narrow', ('y.npy', '3', '4')),
    Mistake(BUILD + 'npy:typed,target=film', ('target=film is no type', 'book, reader')),
    Mistake(BUILD + 'npy:typed --direction undirected', ('relations have a direction', ',reverse')),
    Mistake(BUILD + 'npy:sound,reverse', ('reverse has no effect', '--direction undirected')),
    Mistake('strata-train --graph npy:typed --model rgcn', ('npy:typed is a dataset', 'strata-partition build --input npy:typed')),
    Mistake(BUILD + 'npy:mask', ('train.npy', 'a mask, it seems', 'astype(bool)')),
    Mistake(BUILD + 'npy:overlap', ("splits 'train' and 'valid' overlap in 1 node",)),
    Mistake(BUILD + 'npy:named', ('val_mask.npy', "Did you mean 'valid.npy'?")),
    Mistake(BUILD + 'npy:bigendian', ('x.npy', 'big endian')),
    Mistake(BUILD + 'npy:objects', ('y.npy', 'Python objects')),
    Mistake(BUILD + 'npy:cut', ('x.npy: truncated',)),
    Mistake(BUILD + 'npy:unlabelled', ('training node 0 has no label',)),
    Mistake(BUILD + 'csv:letters.csv', ("letters.csv:2: id: 'b' is not an integer",)),
    Mistake(BUILD + 'csv:ragged.csv', ('ragged.csv:2: 1 column, but column 1 is wanted',)),
    Mistake(BUILD + 'csv:weights.csv,weight=2', ('weights.csv:1: weight -2 is negative',)),
    Mistake(BUILD + 'csv:cut.csv.gz', ('cut.csv.gz: damaged or truncated gzip file',)),
    Mistake(BUILD + 'snap:huge.txt', ('ids up to 9000000000', 'ids=sparse')),
    Mistake(BUILD + 'metis:half.graph', ('lines for 2 nodes, but the header states 3',)),
    Mistake(BUILD + 'metis:parted.graph', ('parted.graph:3: neighbor 3 is not within [1, 2]',)),
    Mistake(BUILD + 'mtx:bad.mtx', ('bad.mtx:1: not the first line of a Matrix Market file',)),
    Mistake(BUILD + 'npy:sound --labels short/y.npy', ('short/y.npy: 3 labels for 6 nodes',)),
    Mistake(BUILD + 'npy:sound --split training=x.npy', ('--split training=x.npy', 'train=FILE')),
    Mistake('strata-partition convert npy:sound ogb:other', ('ogb:other cannot be written', 'npy:DIR')),
    Mistake('strata-partition convert npy:sound npy:cut', ('cut exists',)),
    Mistake('strata-partition info taken --direction directed', ('--direction has no effect on taken',)),
    Mistake('strata-partition info taken --labels sound/y.npy', ('--labels has no effect on taken',)),
    Mistake(BUILD + 'parquet:empty', ('empty: neither edges.parquet nor edges-*.parquet', 'edge-table=')),
    Mistake(BUILD + 'parquet:nowhere', ('nowhere: no such directory',)),
    Mistake(BUILD + 'pyg:data.pt', ("'pyg:' is not read", 'examples/from_pyg.py')),
    Mistake('strata-partition info empty', ('empty', 'manifest.json')),
    Mistake('strata-partition info nowhere', ('nowhere: no such directory',)),
    Mistake('strata-train --device cpu --graph nowhere', ('nowhere: no such directory',)),
    Mistake('strata-train --device cpu --graph npy:sound', ('npy:sound is a dataset', 'strata-partition build --input npy:sound')),
    Mistake('strata-train --device cpu --graph sound', ('sound', 'strata-partition build --input npy:sound')),
    Mistake('strata-train --device cpu --graph sythetic:nodes=50', ("Did you mean 'synthetic:'?",)),
    Mistake('strata-train --device cpu --graph unvalidated-parts --fanouts 2,2 --epochs 1 --output v 2>&1 | grep validation.nodes',
            ('no validation nodes', 'the last model is kept'), code=0),
    Mistake('strata-train --device cpu --graph unvalidated-parts --fanouts 2,2 --patience 3', ('--patience 3', 'no validation nodes')),
)
