# SPDX-License-Identifier: Apache-2.0
"""What people get wrong about inputs and with strata-partition."""
from mistake import Mistake

SPEC = 'synthetic:kind=sbm,nodes=300,edges=2400,features=8,classes=3,seed=1'


def prepare(folder, shell):
    """Makes the files that the lines below name."""
    (folder / 'empty').mkdir()


TABLE = (
    Mistake(f'strata-partition build --input {SPEC} --parts 0 --output p', ('--parts',)),
    Mistake(f'strata-partition build --input {SPEC} --part 2 --output p', ('--part', '--parts')),
    Mistake('strata-partition build --input ogb:nowhere --parts 2 --output p', ('nowhere',)),
    Mistake('strata-partition build --input synthetic:node=300 --parts 2 --output p', ('node', 'nodes')),
    Mistake('strata-partition info empty', ('empty', 'manifest.json')),
)
