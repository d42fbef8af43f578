# SPDX-License-Identifier: Apache-2.0
"""What people get wrong with strata-train."""
import numpy as np
from mistake import Mistake

SPEC = 'synthetic:kind=sbm,nodes=300,edges=2400,features=8,classes=3,seed=1'
TRAIN = 'strata-train --device cpu --graph parts'
TRAIN_2 = 'mpirun -n 2 ' + TRAIN
MACHINES_2 = TRAIN_2 + ' --ranks-per-machine 1'


def prepare(folder, shell):
    """Makes the files that the lines below name."""
    job = '--fanouts 3,3 --hidden 8 --epochs 2 --log-level off'
    for line in (f'strata-partition build --input {SPEC} --parts 2 --output parts',
                 f'strata-partition build --input {SPEC},valid=0 --parts 1 --output novalid',
                 f'strata-partition build --input {SPEC.replace("features=8", "features=9")} --parts 1 --output wider',
                 'strata-partition build --input synthetic:igbh,scale=0.00001,cols=8 --parts 2 --output types',
                 'strata-partition build --input synthetic:igbh,scale=0.00001,cols=9 --parts 1 --output widertypes',
                 f'strata-train --device cpu --graph types --model rgcn {job} --output donetypes',
                 f'{TRAIN} {job} --output done'):
        code, text = shell(line)
        assert code == 0, text
    (folder / 'same').mkdir()
    for name, array in {'edge_index': [[0, 1], [1, 0]], 'x': np.ones((6, 2), np.float32), 'y': [0] * 6, 'train': [2, 3]}.items():
        np.save(folder / 'same' / f'{name}.npy', np.array(array))
    code, text = shell('strata-partition build --input npy:same --parts 1 --output oneclass')
    assert code == 0, text
    for name in 'no-parts', 'graphbolt', 'ogb', 'numpy':
        (folder / name).mkdir()
    (folder / 'graphbolt/metadata.yaml').write_text('')
    (folder / 'ogb/raw').mkdir()
    (folder / 'numpy/edge_index.npy').write_text('')
    (folder / 'file').write_text('')
    (folder / 'misspelt.toml').write_text('hiden = 64\n')
    (folder / 'untyped.toml').write_text('[training]\nlr = "fast"\n')
    (folder / 'no.toml').write_text('hidden: 64\n')
    (folder / 'ids.npy').write_text('1, 2, 3')


TABLE = (
    # the graph
    Mistake('strata-train', ('--graph is missing', 'partition directory')),
    Mistake('mpirun -n 2 strata-train --graph nowhere', ('nowhere: no such directory',), ('rank 1',)),
    Mistake('mpirun -n 2 strata-train --graph no-parts', ('no-parts: not a partition directory', 'manifest.json'), ('rank 1',)),
    Mistake('strata-train --graph graphbolt', ('Build it first', 'strata-partition build --input graphbolt:graphbolt')),
    Mistake('strata-train --graph ogb', ('Build it first', 'strata-partition build --input ogb:ogb')),
    Mistake('strata-train --graph numpy', ('Build it first', 'strata-partition build --input npy:numpy')),
    Mistake('strata-train --graph ogb:products', ('--graph ogb:products', 'strata-partition build --input ogb:products')),
    Mistake('strata-train --graph oneclass --fanouts 2', ('oneclass: all labels of the graph are one class', 'two classes or more')),
    Mistake('strata-train --graph parts/manifest.json', ('parts/manifest.json',)),
    Mistake('strata-train parts', ('unexpected argument parts', 'Did you mean --graph parts?')),
    Mistake('strata-train --dataset parts', ('unknown option --dataset', '--graph')),
    Mistake('strata-train --graph synthetic:node=100', ('node', 'nodes')),
    Mistake(TRAIN + ' --ranks-per-machine 1 -n 3', ('unknown option -n',)),
    Mistake('strata-train -g parts', ('Did you mean --graph?',)),
    Mistake('strata-train --graph', ('--graph needs a value',)),
    Mistake('strata-train train --graph parts', ('strata-train --graph parts trains',)),
    Mistake('strata-train build --input numpy', ('strata-partition build',)),
    Mistake('strata-train test done --graph parts', ('Did you mean evaluate?',)),
    Mistake('strata-train infer done --graph parts', ('Did you mean predict?',)),
    Mistake('strata-train help', ('Did you mean --help?',)),
    # graphs of several types
    Mistake('strata-train --graph types', ('6 types of nodes and 11 relations', 'rgcn, rsage, rgat or hgt')),
    Mistake('strata-train --graph types --model rgcn --target autor', ('no such type', 'author, conference, fos')),
    Mistake('strata-train --graph types --model rgcn --target author', ('"author"', 'training split')),
    Mistake('strata-train --graph types --model rgcn --relation-fanouts reads=2,2,2', ('no relation "reads"', 'paper__cites__paper')),
    Mistake('strata-train --graph types --model rgcn --relation-fanouts cites=2', ('cites has 1 entries, --fanouts 3',)),
    Mistake('strata-train --graph types --model rgcn --relation-fanouts cites', ('NAME=15,10',)),
    Mistake('strata-train --graph types --model rgat --bases 3', ('--bases has no effect', '--model rgcn')),
    Mistake('strata-train --graph types --model rgcn --learned-rows 16', ('all nodes of the graph have features', 'Leave it out')),
    Mistake('strata-train --graph types --model rgcn --learned-rows=-1', ('--learned-rows: -1', 'such as 64')),
    Mistake('strata-train --graph types --model rgcn --learned-lr 0.1', ('--learned-lr has no effect', '--learned-rows')),
    Mistake('strata-train --graph parts --model rgcn --target author', ('no such type',)),
    Mistake('strata-plan --graph types --cluster machines=2', ('--model sage', 'rgcn, rsage, rgat or hgt')),
    Mistake('strata-train predict donetypes --graph widertypes --output x.npy', ('reads 8 feature columns, but widertypes has 9',)),
    Mistake('strata-train predict donetypes --graph parts --output x.npy', ('no such type',)),
    # launchers that are not Open MPI's
    Mistake('PMI_RANK=0 PMI_SIZE=3 PMI_FD=9 ' + TRAIN, ('MPI started 3 ranks (PMI_SIZE=3)', 'libmpi.so.12', 'LD_LIBRARY_PATH')),
    Mistake('MV2_COMM_WORLD_RANK=0 MV2_COMM_WORLD_SIZE=5 ' + TRAIN.replace('strata-train', 'strata-plan'), ('MV2_COMM_WORLD_SIZE=5', 'strata-run -n N')),
    Mistake('RANK=0 WORLD_SIZE=4 MASTER_ADDR=localhost ' + TRAIN, ('MASTER_PORT', 'torchrun')),
    # names of options
    Mistake(TRAIN + ' --fanout 5,5', ('unknown option --fanout', 'Did you mean --fanouts?')),
    Mistake(TRAIN_2 + ' --fanout 5,5', ('strata-train: unknown option --fanout',), ('rank',)),
    Mistake(TRAIN + ' --num-layers 3', ('unknown option --num-layers', '--fanouts has one number per layer')),
    Mistake(TRAIN + ' --lr_schedule cosine', ('Did you mean --lr-schedule?',)),
    Mistake(TRAIN + ' --learning-rate 0.1', ('Did you mean --lr?',)),
    Mistake(TRAIN + ' --hidden_channels 64', ('Did you mean --hidden?',)),
    Mistake(TRAIN + ' --gpus 4', ('mpirun -n 4 strata-train',)),
    Mistake(TRAIN + ' --num-workers 4', ('cores of a rank',)),
    Mistake(TRAIN + ' --early_stopping 5', ('Did you mean --patience?',)),
    Mistake(TRAIN + ' --force', ('Did you mean --overwrite?',)),
    # values
    Mistake(TRAIN + ' --fanouts 15 10 5', ('unexpected argument 10', '15,10,5')),
    Mistake(TRAIN + ' --fanouts "15, 10"', ('--fanouts: "15, 10" has blanks or brackets', '15,10,5')),
    Mistake(TRAIN + ' --fanouts [15,10]', ('--fanouts: "[15,10]" has blanks or brackets',)),
    Mistake(TRAIN + ' --seeds 1,2,1', ('--seeds: 1 is there twice',)),
    Mistake(TRAIN + ' --fanouts 5,-2', ('--fanouts: -2', '-1 for all')),
    Mistake(TRAIN + ' --model graphsage', ('there is no "graphsage"', 'Did you mean sage?')),
    Mistake(TRAIN + ' --model sgae', ('--model', 'Did you mean sage?')),
    Mistake(TRAIN + ' --model GCN', ('Did you mean gcn?',)),
    Mistake('strata-train --graph parts --device gpu', ('there is no "gpu"', 'Did you mean cuda?')),
    Mistake(TRAIN + ' --precision fp16', ('Did you mean bf16?',)),
    Mistake(TRAIN + ' --dropout 1.5', ('--dropout: 1.5', 'below 1')),
    Mistake(TRAIN + ' --batch-size 0', ('--batch-size: 0 is not positive',)),
    Mistake(TRAIN + ' --hidden wide', ('--hidden: "wide" is no integer',)),
    Mistake(TRAIN + ' --hidden', ('--hidden',)),
    Mistake(TRAIN + ' --epochs 1e3', ('--epochs: "1e3" is no integer',)),
    Mistake(TRAIN + ' --lr 0,003', ('--lr: "0,003" is no number',)),
    Mistake(TRAIN + ' --optimizer rmsprop', ('--optimizer', 'adamw')),
    Mistake(TRAIN + ' --metric auc', ('Did you mean roc_auc?',)),
    Mistake(TRAIN + ' --metric roc_auc', ('two classes',)),
    Mistake(TRAIN + ' --class-weights 1,2', ('--class-weights',)),
    Mistake(TRAIN + ' --sampler weighted', ('no edge weights',)),
    Mistake(TRAIN + ' --model gat --hidden 10', ('--hidden: 10 cannot be divided among 4 heads',)),
    # options without effect, or against each other
    Mistake(TRAIN + ' --heads 4', ('--heads has no effect without --model gat',)),
    Mistake(TRAIN + ' --attention-dropout 0.1', ('no effect without --model gat',)),
    Mistake(TRAIN + ' --lr-gamma 0.5', ('--lr-schedule step:UPDATES:FACTOR',)),
    Mistake(TRAIN + ' --lr-schedule cosine:20', ('only step takes numbers',)),
    Mistake(TRAIN + ' --plan-only', ('strata-plan',)),
    Mistake(TRAIN + ' --precision tf32', ('--precision tf32 has no effect: no rank computes on a GPU',)),
    Mistake(TRAIN_2 + ' --gpu-memory 4GiB', ('--gpu-memory has no effect', 'GPU'), ('rank 1',)),
    Mistake(MACHINES_2 + ' --exchange nccl', ('--exchange nccl is not possible here', '0 of 2 ranks', '--exchange auto'), ('loading',)),
    Mistake(TRAIN + ' --exchange nccl', ('--exchange nccl is not possible here', 'one machine')),
    Mistake(MACHINES_2 + ' --exchange nccl --sampler labor', ('--exchange nccl contradicts --sampler labor', 'auto')),
    Mistake(MACHINES_2 + ' --exchange nccl --fanouts 5,-1', ('contradicts the fanout -1 of --fanouts',)),
    Mistake(MACHINES_2 + ' --exchange nccl --sampler-device cpu', ('contradicts --sampler-device cpu',)),
    Mistake(MACHINES_2 + ' --row-exchange mpi', ('Did you mean --exchange?',)),
    Mistake('mpirun --oversubscribe -n 3 ' + TRAIN + ' --ranks-per-machine 1', ('2 parts', '3 machines', '--ranks-per-machine', 'repartition')),
    Mistake(TRAIN + ' --halo-cache off', ('--halo-cache', '0 for none, or auto')),
    Mistake(TRAIN + ' --halo-cache 999999999999TiB', ('--halo-cache', 'too large')),
    Mistake(TRAIN + ' --gpu-memory lots', ('--gpu-memory', '4GiB')),
    Mistake(TRAIN + ' --cuda-graph on', ('--cuda-graph on has no effect: no rank computes on a GPU', 'Leave it out'), ('loading',)),
    Mistake(TRAIN + ' --cuda-graph on --fanouts 5,-1', ('--cuda-graph on contradicts the fanout -1',)),
    Mistake(TRAIN + ' --patience 3 --eval-every 0', ('--patience needs evaluations',)),
    Mistake('strata-train --device cpu --graph novalid --patience 3', ('--patience', 'no validation nodes', 'novalid')),
    Mistake(TRAIN + ' --replace --sampler labor', ('--replace contradicts --sampler labor',)),
    Mistake(TRAIN + ' --ranks-per-machine 1 --placement replicate', ('--placement replicate has no effect', 'no rank computes on a GPU')),
    # files
    Mistake(TRAIN + ' --config nowhere.toml', ('--config nowhere.toml: no such file',)),
    Mistake(TRAIN + ' --config parts', ('--config parts is a directory',)),
    Mistake(TRAIN + ' --config misspelt.toml', ('misspelt.toml:1:1: unknown option hiden', 'Did you mean hidden?')),
    Mistake(TRAIN + ' --config untyped.toml', ('untyped.toml:2:', 'is not a number')),
    Mistake(TRAIN + ' --config no.toml', ('no.toml:1:', 'TOML')),
    Mistake(TRAIN + ' misspelt.toml', ('Did you mean --config misspelt.toml?',)),
    Mistake(TRAIN + ' --predictions logits.npy', ('strata-train predict RUN',)),
    Mistake('strata-train predict done --graph parts --output nowhere/logits.npy', ('cannot write nowhere/logits.npy',)),
    Mistake(TRAIN + ' --trace nowhere/trace', ('--trace: cannot write', 'nowhere: no such directory')),
    Mistake(TRAIN + ' --output file', ('--output: cannot write into file',)),
    Mistake(TRAIN + ' --output parts', ('is a directory of part files', '--output')),
    Mistake(TRAIN_2 + ' --output done', ('done has a run already', '--resume done', '--overwrite', 'another folder'), ('rank 1',)),
    # runs
    Mistake('strata-train --resume nowhere --graph parts', ('--resume nowhere: no such directory',)),
    Mistake('mpirun -n 2 strata-train --resume done --hidden 16 --seed 1', ('--hidden 16 instead of 8, --seed 1 instead of 0',), ('rank 1',)),
    Mistake('strata-train --resume done --epochs 1', ('--epochs 1: the run has done 2 already',)),
    Mistake('strata-train --resume done --overwrite', ('--overwrite contradicts --resume',)),
    Mistake('strata-train --resume', ('--resume does not say which run', '--resume runs/last')),
    Mistake(TRAIN + ' --resume', ('--resume does not say which run', '--resume runs/last')),
    Mistake('strata-train --resume nowhere', ('--resume nowhere: no such directory',)),
    Mistake('strata-train --resume done/model.safetensors', ('done/model.safetensors: a file', '--resume done')),
    Mistake(TRAIN + ' --init-from nowhere', ('nowhere: no such directory', 'runs/last')),
    Mistake(TRAIN + ' --init-from no-parts', ('the run has no model yet',)),
    Mistake('strata-train predict', ('predict needs the folder of a run',)),
    Mistake('strata-train predict done --output x.npy', ('--graph is missing', '--graph parts')),
    Mistake('strata-train predict nowhere --graph parts --output x.npy', ('nowhere: no such directory',)),
    Mistake('strata-train predict no-parts --graph parts --output x.npy', ('no-parts: no such run',)),
    Mistake('strata-train predict done --graph parts', ('--output is missing', 'evaluate')),
    Mistake('strata-train predict done --graph parts --output x.npy --nodes nowhere.npy', ('nowhere.npy: no such file',), ('loading',)),
    Mistake('strata-train predict done --graph parts --output x.txt', ('ends neither with .npy nor with .csv',)),
    Mistake('strata-train predict done --graph parts --output x.npy --hidden 3', ('--hidden is no option of predict',)),
    Mistake('strata-train predict done --graph parts --output x.npy --split tset', ('--split', 'Did you mean test?')),
    Mistake('strata-train predict done --graph parts --output x.npy --nodes ids.npy', ('ids.npy',)),
    Mistake('mpirun -n 2 strata-train evaluate done --graph wider', ('reads 8 feature columns, but wider has 9',), ('rank 1',)),
)
