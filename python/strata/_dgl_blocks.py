# SPDX-License-Identifier: Apache-2.0
"""Blocks as DGL's own graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from strata.errors import InputError

if TYPE_CHECKING:
    import torch

    from strata.batches import Block

    Frames = Mapping[str, Mapping[str, torch.Tensor]]


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
    made = _created(dgl, _lists_of(block), num_src_nodes=block.num_src, num_dst_nodes=block.num_dst, device=block.indptr.device)
    made.srcdata[dgl.NID] = block.src_nodes
    made.dstdata[dgl.NID] = block.src_nodes[: block.num_dst]
    if block.edge_ids is not None:
        made.edata[dgl.EID] = block.edge_ids
    return made


def create_block(relations: Mapping[tuple[str, str, str], Any], src: Frames, dst: Frames) -> Any:
    """A block of DGL's of relations, each a strata.dgl.Block, with the rows of its sources, destinations and edges."""
    dgl = import_dgl()
    num_src, num_dst = ({kind: len(frame[dgl.NID]) for kind, frame in frames.items()} for frames in (src, dst))
    lists = {kind: _lists_of(block) for kind, block in relations.items()}
    made = _created(
        dgl, lists, num_src_nodes=num_src, num_dst_nodes=num_dst, device=next(iter(relations.values())).indptr.device
    )
    for kind, frame in src.items():
        made.srcnodes[kind].data.update(frame)
    for kind, frame in dst.items():
        made.dstnodes[kind].data.update(frame)
    for relation, block in relations.items():
        made.edges[relation].data.update(block.edata)
    return made


def _lists_of(block: Block) -> Any:
    # No edge ids: an edge's number is then its position in the lists, as in block.edge_ids.
    return "csc", (block.indptr, block.indices.to(block.indptr.dtype), block.indptr.new_empty(0))


def _created(dgl: Any, data: Any, *, device: Any, **sizes: Any) -> Any:
    try:
        return dgl.create_block(data, **sizes)
    except dgl.DGLError as error:
        if device.type != "cuda":
            raise
        raise InputError(
            f"this DGL ({dgl.__version__}) makes no block on {device}: {str(error).splitlines()[-1]}",
            'Wheels of DGL on PyPI have no CUDA. Give loaders blocks="strata" and take layers of strata.dgl.nn, or install a DGL with CUDA.',
        ) from error
