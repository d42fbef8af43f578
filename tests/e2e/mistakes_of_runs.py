# SPDX-License-Identifier: Apache-2.0
"""What people get wrong with strata-train."""
from mistake import Mistake

SPEC = 'synthetic:kind=sbm,nodes=300,edges=2400,features=8,classes=3,seed=1'
TRAIN = 'strata-train --device cpu --graph parts'
TRAIN_2 = 'mpirun -n 2 ' + TRAIN


def prepare(folder, shell):
    """Makes the files that the lines below name."""
    code, text = shell(f'strata-partition build --input {SPEC} --parts 2 --output parts')
    assert code == 0, text
    (folder / 'no-parts').mkdir()


TABLE = (
    Mistake('strata-train', ('--graph is missing',)),
    Mistake(TRAIN + ' --fanout 5,5', ('unknown option --fanout', 'Did you mean --fanouts?')),
    Mistake(TRAIN + ' --fanouts 15 10 5', ('unexpected argument 10', '15,10,5')),
    Mistake(TRAIN + ' --model sgae', ('--model', 'Did you mean sage?')),
    Mistake(TRAIN + ' --dropout 1.5', ('--dropout: 1.5', 'below 1')),
    Mistake(TRAIN + ' --batch-size 0', ('--batch-size: 0 is not positive',)),
    Mistake(TRAIN + ' --hidden wide', ('--hidden: "wide" is no integer',)),
    Mistake(TRAIN + ' --lr 0,003', ('--lr: "0,003" is no number',)),
    Mistake(TRAIN + ' --optimizer rmsprop', ('--optimizer', 'adamw')),
    Mistake(TRAIN + ' --gpu-memory lots', ('--gpu-memory', '4GiB')),
    Mistake(TRAIN + ' --metric roc_auc', ('two classes',)),
    Mistake(TRAIN + ' --config nowhere.toml', ('--config: nowhere.toml',)),
)
