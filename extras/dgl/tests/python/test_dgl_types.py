# SPDX-License-Identifier: Apache-2.0
"""strata.dgl: graphs of several types by DGL's names."""

import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
from torch_geometric.data import HeteroData

import strata
import strata.dgl as dgl_names
from strata.dgl import EID, NID

try:
    import dgl
except (ImportError, OSError):  # it does not load with this torch
    dgl = None

WRITES, SHOWS, CITES, BACK = (
    ("author", "writes", "paper"),
    ("venue", "shows", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "back", "author"),
)
FANOUTS = [{"writes": 2, "shows": 1, CITES: -1, BACK: 2}, {WRITES: 3, SHOWS: 0, CITES: 2, BACK: 1}]

# Writes the step, number and label of each paper among this rank's seeds, and the numbers of its edges over a relation.
OF_RANK = """
import json, pathlib, sys
import strata
import torch
import strata.dgl as dgl

found, folder = [], pathlib.Path(sys.argv[1])
rank = strata.init("cpu", 1).rank
with strata.load(folder / "parts") as graph:
    sampler = dgl.NeighborSampler([2], prefetch_node_feats={"author": ["x"]}, prefetch_labels={"paper": ["y"]})
    papers = {"paper": torch.arange(0, 200, 2)}
    loader = dgl.DataLoader(graph, papers, sampler, use_ddp=True, batch_size=25, blocks="strata", shuffle=True)
    for step, (input_nodes, seeds, (block,)) in enumerate(loader):
        assert len(block.srcdata["x"]["author"]) == len(input_nodes["author"])
        ids, (_, dst) = block.edges["cites"].data[dgl.EID], block.edges(etype="cites")
        for place, seed in enumerate(seeds["paper"].tolist()):
            label = int(block.dstnodes["paper"].data["y"][place])
            found.append([step, seed, label, sorted(ids[dst == place].tolist())])
(folder / f"{rank}.json").write_text(json.dumps(found))
"""


def on_the_cpu(loader):
    """Its batches, which are compared with arrays that lie there."""
    for input_nodes, output_nodes, blocks in loader:
        nodes = ({kind: ids.cpu() for kind, ids in of_types.items()} for of_types in (input_nodes, output_nodes))
        yield *nodes, [block.to("cpu") for block in blocks]


class Types(unittest.TestCase):
    def setUp(self):
        random = torch.Generator().manual_seed(8)
        self.data = data = HeteroData()
        for kind, count in (("paper", 200), ("author", 60), ("venue", 9), ("editor", 4)):
            data[kind].x = torch.randn(count, 3, generator=random)
        data["paper"].y = torch.randint(4, (200,), generator=random)
        data["author"].age = torch.arange(60.0)
        for kind, count in ((WRITES, 900), (SHOWS, 200), (CITES, 1200)):
            ends = [torch.randint(data[end].num_nodes, (count,), generator=random) for end in (kind[0], kind[2])]
            data[kind].edge_index = torch.stack(ends)
        data[BACK].edge_index = data[WRITES].edge_index.flip(0)
        self.graph = strata.from_pyg(data)
        self.addCleanup(self.graph.close)

    def loader(self, indices=None, fanouts=FANOUTS, blocks="strata", **options):
        prefetched = {"prefetch_node_feats": {"paper": ["x"], "author": ["x", "age"]}, "prefetch_labels": {"paper": ["y"]}}
        sampler = dgl_names.MultiLayerNeighborSampler(fanouts, **prefetched)
        indices = {"paper": torch.arange(0, 200, 2), "author": torch.arange(60) % 3 == 0} if indices is None else indices
        return dgl_names.DataLoader(self.graph, indices, sampler, batch_size=50, blocks=blocks, **options)

    def test_are_sampled_by_relation(self):
        met = {"paper": [], "author": []}
        loader = self.loader(shuffle=True)
        for input_nodes, output_nodes, blocks in on_the_cpu(loader):
            last = None
            for layer, block in enumerate(blocks):
                self.check_block(block, FANOUTS[layer], last)
                last = block
            self.assertEqual(sorted(input_nodes), sorted(self.data.node_types))
            for kind, ids in input_nodes.items():
                self.assertTrue(torch.equal(ids, blocks[0].srcnodes[kind].data[NID]))
            for kind, ids in output_nodes.items():
                self.assertTrue(torch.equal(ids, blocks[-1].dstdata[NID][kind]))
                met[kind] += ids.tolist()
            self.assertTrue(torch.equal(blocks[0].srcdata["x"]["author"], self.data["author"].x[input_nodes["author"]]))
            self.assertTrue(torch.equal(blocks[0].srcdata["age"]["author"], input_nodes["author"].float()))
            self.assertTrue(torch.equal(blocks[-1].dstnodes["paper"].data["y"], self.data["paper"].y[output_nodes["paper"]]))
        self.assertEqual(len(loader), 3)
        self.assertEqual(
            {kind: sorted(ids) for kind, ids in met.items()}, {"paper": [*range(0, 200, 2)], "author": [*range(0, 60, 3)]}
        )

    def check_block(self, block, fanouts, before):
        fanout_of = {block.to_canonical_etype(key): fanout for key, fanout in fanouts.items()}
        for kind in block.srctypes:
            ids = block.srcnodes[kind].data[NID]
            self.assertEqual(len(ids.unique()), block.num_src_nodes(kind))
            self.assertTrue(torch.equal(ids[: block.num_dst_nodes(kind)], block.dstnodes[kind].data[NID]))
            self.assertTrue(torch.equal(block.srcnodes(kind), torch.arange(len(ids))))
            if before is not None:
                self.assertTrue(torch.equal(ids, before.dstnodes[kind].data[NID]))
        self.assertEqual(block.canonical_etypes, self.data.edge_types)
        for kind in block.canonical_etypes:
            edge_index = self.data[kind].edge_index
            of, (src, dst) = block[kind], block.edges(etype=kind)
            chosen = block.edata[EID][kind]
            self.assertTrue(torch.equal(block.srcdata[NID][kind[0]][src], edge_index[0, chosen]))
            self.assertTrue(torch.equal(block.dstdata[NID][kind[2]][dst], edge_index[1, chosen]))
            self.assertEqual(len(chosen.unique()), block.num_edges(kind))
            self.assertTrue(torch.equal(torch.stack(of.edges()), torch.stack((src, dst))))
            degrees = torch.bincount(edge_index[1], minlength=self.data[kind[2]].num_nodes)[block.dstdata[NID][kind[2]]]
            wanted = degrees if fanout_of[kind] < 0 else degrees.clamp(max=fanout_of[kind])
            self.assertTrue(torch.equal(block.in_degrees(etype=kind), wanted))
            self.assertTrue(torch.equal(block.out_degrees(etype=kind), torch.bincount(src, minlength=of.num_src)))

    def test_batches_are_those_of_a_node_loader(self):
        of_relations = {
            kind: [FANOUTS[1].get(kind, FANOUTS[1].get(kind[1])), FANOUTS[0].get(kind, FANOUTS[0].get(kind[1]))]
            for kind in self.data.edge_types
        }
        seeds = {"paper": torch.arange(0, 200, 2), "author": torch.arange(0, 60, 3)}
        other = strata.NodeLoader(self.graph, seeds, fanouts=of_relations, batch_size=50)
        for mine, theirs in zip(self.loader(), other):
            for one, block in zip(mine.blocks, theirs.blocks):
                self.assertTrue(torch.equal(one.edge_ids, block.edge_ids))

    def test_take_full_neighbors_and_a_number_for_all_relations(self):
        sampler = dgl_names.MultiLayerFullNeighborSampler(1)
        with self.assertWarnsRegex(UserWarning, "no relation goes to 'venue'"):
            loader = dgl_names.DataLoader(self.graph, {"venue": [3], "paper": [5, 7]}, sampler, batch_size=3)
        ((_, seeds, (block,)),) = loader
        self.assertEqual(seeds["paper"].tolist(), [5, 7])
        for kind in self.data.edge_types:
            wanted = torch.isin(self.data[kind].edge_index[1], torch.tensor([5, 7])) if kind[2] == "paper" else torch.zeros(1)
            self.assertEqual(block.num_edges(kind), int(wanted.sum()))
        ((_, _, (block,)),) = dgl_names.DataLoader(self.graph, {"paper": [5]}, dgl_names.NeighborSampler([1]), batch_size=1)
        self.assertEqual([block.num_edges(kind) for kind in (CITES, SHOWS)], [1, 1])

    def test_layers_take_them(self):
        torch.manual_seed(0)
        layers = {kind: dgl_names.nn.SAGEConv(3, 3) for kind in ("writes", "shows", "cites", "back")}
        of_names = dgl_names.nn.HeteroGraphConv(layers)
        merged = strata.nn.HeteroConv({kind: strata.nn.SAGEConv(3, 3) for kind in self.data.edge_types})
        for kind in self.data.edge_types:
            merged.convs["<" + "___".join(kind) + ">"].load_state_dict(layers[kind[1]].state_dict())
        _, _, (block, _) = next(on_the_cpu(self.loader()))
        x = {kind: self.data[kind].x[ids] for kind, ids in block.srcdata[NID].items()}
        rows = torch.empty(block.num_src, 3)
        for number, kind in enumerate(block.srctypes):
            rows[block.types.of_nodes == number] = x[kind]
        wanted = block.rows_by_type(merged(rows, block), is_src=False)
        out = of_names(block, x)
        self.assertEqual(sorted(out), ["author", "paper"])
        for kind, found in out.items():
            torch.testing.assert_close(found, wanted[kind])
        means = dgl_names.nn.HeteroGraphConv(layers, lambda results, kind: len(results))(block, x)
        self.assertEqual(means, {"paper": 3, "author": 1})

    def test_graphs_answer_to_names(self):
        graph = dgl_names.HeteroGraph(self.graph)
        self.assertEqual((graph.ntypes, graph.canonical_etypes), (self.data.node_types, self.data.edge_types))
        self.assertEqual([graph.num_nodes(kind) for kind in (*graph.ntypes, None)], [200, 60, 9, 4, 273])
        self.assertEqual((graph.num_edges("cites"), graph.num_edges(), graph.etypes[0]), (1200, 3200, "writes"))
        self.assertTrue(torch.equal(graph.nodes["paper"].data["y"], self.data["paper"].y))
        self.assertTrue(torch.equal(graph.ndata["x"]["venue"], self.data["venue"].x))
        self.assertTrue(torch.equal(graph.nodes("venue"), torch.arange(9)))
        self.assertTrue(torch.equal(graph.edges(etype=CITES, form="eid"), torch.arange(1200)))
        with graph.local_scope():
            graph.edges["cites"].data["w"] = torch.ones(1200)
            self.assertEqual(list(graph.edata["w"]), [CITES])
        self.assertNotIn("w", graph.edata)
        loader = dgl_names.DataLoader(graph, {"paper": [1]}, dgl_names.NeighborSampler([1]), batch_size=1, blocks="strata")
        self.assertEqual(next(iter(loader))[1]["paper"].tolist(), [1])
        for message, call in (
            ("no type of nodes 'book'", lambda: graph.num_nodes("book")),
            ("form='uv'", lambda: graph.edges(etype=CITES)),
            ("has several types", lambda: dgl_names.DGLGraph(self.graph)),
        ):
            with self.assertRaisesRegex(strata.InputError, message):
                call()
        with strata.from_tensors([[0], [1]], num_nodes=2) as plain, self.assertRaisesRegex(strata.InputError, "DGLGraph"):
            dgl_names.HeteroGraph(plain)

    def test_rows_are_added_by_type(self):
        _, _, (block, _) = next(iter(self.loader()))
        with block.local_scope():
            block.srcdata["h"] = {"paper": torch.ones(block.num_src_nodes("paper"), 2)}
            self.assertEqual(list(block.srcdata["h"]), ["paper"])
            self.assertEqual(len(block["cites"].srcdata["h"]), block.num_src_nodes("paper"))
            block.edges["cites"].data["w"] = torch.ones(block.num_edges("cites"))
            self.assertEqual(list(block.edata["w"]), [CITES])
            with self.assertRaisesRegex(strata.InputError, "one tensor for 4 types"):
                block.srcdata["h"] = torch.ones(2)
        self.assertNotIn("h", block.srcdata)
        self.assertEqual(block.num_nodes("paper"), block.num_src_nodes("paper") + block.num_dst_nodes("paper"))
        self.assertIs(block.to(block.device), block)

    def pairs(self, kind, exclude, negatives=None, blocks="strata"):
        sampler = dgl_names.NeighborSampler([2, -1], prefetch_node_feats={"author": ["x"]})
        reverse = {"writes": BACK} if exclude == "reverse_types" else None
        edges = dgl_names.as_edge_prediction_sampler(
            sampler, exclude=exclude, reverse_etypes=reverse, negative_sampler=negatives
        )
        return dgl_names.DataLoader(self.graph, {kind: torch.arange(0, 200, 2)}, edges, batch_size=40, blocks=blocks)

    def test_edges_to_predict_are_left_out_by_relation(self):
        for kind, exclude in itertools.product((WRITES, CITES), (None, "self", "reverse_types")):
            for input_nodes, pairs, blocks in self.pairs(kind[1], exclude):
                self.assertTrue(
                    torch.equal(blocks[0].srcdata["x"]["author"].cpu(), self.data["author"].x[input_nodes["author"].cpu()])
                )
                edge_index = {one: self.data[one].edge_index.to(pairs.device) for one in self.data.edge_types}
                chosen = pairs.edata[EID][kind]
                src, dst = pairs.edges(etype=kind)
                ends = torch.stack([pairs.ndata[NID][kind[0]][src], pairs.ndata[NID][kind[2]][dst]])
                self.assertTrue(torch.equal(ends, edge_index[kind][:, chosen]))
                self.assertEqual((pairs.num_edges(), pairs.num_edges(SHOWS)), (len(chosen), 0))
                for name, ids in pairs.ndata[NID].items():
                    self.assertTrue(torch.equal(ids, blocks[-1].dstnodes[name].data[NID]))
                gone = {kind: chosen} if exclude else {}
                if exclude == "reverse_types" and kind == WRITES:
                    gone[BACK] = chosen
                for relation in self.data.edge_types:
                    wanted = torch.isin(edge_index[relation][1], pairs.ndata[NID][relation[2]])
                    wanted[gone.get(relation, [])] = False
                    self.assertEqual(sorted(blocks[-1].edata[EID][relation].tolist()), wanted.nonzero().view(-1).tolist())

    def test_edges_to_predict_have_negatives(self):
        code = self.data[WRITES].edge_index[0] * 200 + self.data[WRITES].edge_index[1]
        for of_source in (True, False):
            made = dgl_names.negative_sampler.Uniform(3) if of_source else dgl_names.negative_sampler.GlobalUniform(3)
            for _, pairs, negatives, _ in self.pairs(WRITES, "self", made):
                src, dst = negatives.edges(etype="writes")
                self.assertEqual(len(src), 3 * pairs.num_edges())
                if of_source:
                    self.assertTrue(torch.equal(src, pairs.edges()[0].repeat_interleave(3)))
                else:
                    drawn = negatives.ndata[NID]["author"][src] * 200 + negatives.ndata[NID]["paper"][dst]
                    self.assertFalse(bool(torch.isin(drawn.cpu(), code).any()))
                self.assertNotIn(EID, negatives.edata)

    def test_wrong_ones_are_refused_with_what_to_do(self):
        for message, call in (
            ("do not name the relation .'author', 'writes'", lambda: self.loader(fanouts=[{CITES: 1}])),
            ("no relation 'likes'", lambda: self.loader(fanouts=[{"likes": 1}])),
            ("indices names none", lambda: self.loader(torch.arange(3))),
            ("no type of nodes: 'book'", lambda: self.loader({"book": [1]})),
            (
                "'paper' have no 'h'",
                lambda: dgl_names.DataLoader(
                    self.graph, {"paper": [1]}, dgl_names.NeighborSampler([1], prefetch_node_feats={"paper": ["h"]})
                ),
            ),
            (
                "names no type of nodes",
                lambda: dgl_names.DataLoader(self.graph, {"paper": [1]}, dgl_names.NeighborSampler([1], prefetch_labels="y")),
            ),
            ("samples graphs of one type", lambda: dgl_names.DataLoader(self.graph, {"paper": [1]}, dgl_names.BlockSampler(2))),
            (
                "not those of one relation",
                lambda: dgl_names.DataLoader(self.graph, torch.arange(3), self.pairs("writes", None).graph_sampler),
            ),
            (
                "for graphs of one relation",
                lambda: dgl_names.DataLoader(
                    self.graph,
                    {CITES: [1]},
                    dgl_names.as_edge_prediction_sampler(dgl_names.NeighborSampler([1]), "reverse_id", [1]),
                ),
            ),
            ("no type of nodes 'book'", lambda: next(iter(self.loader())).blocks[0].num_src_nodes("book")),
        ):
            with self.assertRaisesRegex(strata.InputError, message):
                call()

    def test_of_parts_on_two_machines_are_those_of_one(self):
        with tempfile.TemporaryDirectory(prefix="strata-dgl-types-") as folder:
            del self.data["author"].age
            strata.partition(self.data, parts=2, output=f"{folder}/parts", progress=False)
            command = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", sys.executable, "-c", OF_RANK]
            done = subprocess.run([*command, folder], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = [json.loads((pathlib.Path(folder) / f"{rank}.json").read_text()) for rank in range(2)]
        steps = {}
        for step, seed, label, edges in found[0] + found[1]:
            self.assertEqual(label, int(self.data["paper"].y[seed]))
            steps.setdefault(step, {})[seed] = edges
        papers = {"paper": torch.arange(0, 200, 2)}
        loader = dgl_names.DataLoader(
            self.graph, papers, dgl_names.NeighborSampler([2]), batch_size=50, blocks="strata", shuffle=True
        )
        for number, (_, seeds, (block,)) in enumerate(loader):
            _, dst = block.edges(etype=CITES)
            wanted = {
                seed: sorted(block.edata[EID][CITES][dst == place].tolist())
                for place, seed in enumerate(seeds["paper"].tolist())
            }
            self.assertEqual(steps[number], wanted)

    @unittest.skipIf(dgl is None or strata.process().device != "cpu", "needs dgl, whose wheels have no CUDA")
    def test_become_dgls_own(self):
        _, _, mine = next(iter(self.loader()))
        _, _, theirs = next(iter(self.loader(blocks="dgl")))
        for block, own in zip(mine, theirs):
            self.assertEqual(sorted(own.canonical_etypes), sorted(block.canonical_etypes))
            for kind in block.canonical_etypes:
                self.assertTrue(torch.equal(torch.stack(own.edges(etype=kind)), torch.stack(block.edges(etype=kind))))
                self.assertTrue(torch.equal(own.edges[kind].data[dgl.EID], block.edges[kind].data[EID]))
                self.assertEqual(own[kind].num_edges(), block[kind].to_dgl().num_edges())
            for kind in block.srctypes:
                self.assertTrue(torch.equal(own.srcnodes[kind].data[dgl.NID], block.srcnodes[kind].data[NID]))
                self.assertTrue(torch.equal(own.dstnodes[kind].data[dgl.NID], block.dstnodes[kind].data[NID]))
        self.assertTrue(torch.equal(theirs[0].srcdata["x"]["author"], mine[0].srcdata["x"]["author"]))
        uniform = dgl_names.negative_sampler.Uniform(3)
        for mine, theirs in zip(self.pairs(WRITES, "self", uniform), self.pairs(WRITES, "self", uniform, "dgl")):
            for one, own in zip(mine[1:3], theirs[1:3]):
                self.assertTrue(torch.equal(torch.stack(own.edges(etype=WRITES)), torch.stack(one.edges(etype=WRITES))))
                self.assertTrue(torch.equal(own.nodes["paper"].data[dgl.NID], one.nodes["paper"].data[NID]))


if __name__ == "__main__":
    unittest.main()
