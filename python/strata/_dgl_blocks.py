# SPDX-License-Identifier: Apache-2.0
"""Blocks as DGL's own graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata.errors import InputError

if TYPE_CHECKING:
    from strata.batches import Block


def import_dgl() -> Any:
    """The module dgl; InputError where it is missing, or does not go with this torch."""
    try:
        import dgl
    except ImportError as error:
        raise InputError(
            f"DGL cannot be imported ({error})",
            "pip install dgl==1.1.3, which takes any torch; or give block.edge_index to torch_geometric's layers, and blocks to "
            "those of strata.nn.",
        ) from error
    except OSError as error:  # a wheel of DGL 2 that was built for another torch
        raise InputError(
            f"DGL is installed but does not load ({error})", "Install a DGL that was built for this torch, or dgl==1.1.3."
        ) from error
    return dgl


def dgl_block_of(block: Block) -> Any:
    dgl = import_dgl()
    # No edge ids: an edge's number is then its position in the lists, as in block.edge_ids.
    lists = (block.indptr, block.indices.to(block.indptr.dtype), block.indptr.new_empty(0))
    try:
        made = dgl.create_block(("csc", lists), num_src_nodes=block.num_src, num_dst_nodes=block.num_dst)
    except dgl.DGLError as error:
        if not block.indptr.is_cuda:
            raise
        raise InputError(
            f"this DGL ({dgl.__version__}) makes no block on {block.indptr.device}: {str(error).splitlines()[-1]}",
            'Wheels of DGL on PyPI have no CUDA. Give loaders blocks="strata" and take layers of strata.dgl.nn, or install a DGL with CUDA.',
        ) from error
    made.srcdata[dgl.NID] = block.src_nodes
    made.dstdata[dgl.NID] = block.src_nodes[: block.num_dst]
    if block.edge_ids is not None:
        made.edata[dgl.EID] = block.edge_ids
    return made
