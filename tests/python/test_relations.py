# SPDX-License-Identifier: Apache-2.0
"""Layers of several relations: outputs and gradients are those of PyG's layers with the same weights."""

import unittest
import warnings

import torch
import torch_geometric.nn as pyg

import strata
from strata.nn import GATConv, HeteroConv, RGCNConv, SAGEConv, ops

DEVICE = strata.process().device
NODES = {"a": 60, "b": 25, "c": 7}
# The last but one has no edges, the last is parallel to the first.
RELATIONS = {
    ("a", "x", "a"): 300,
    ("b", "y", "a"): 200,
    ("a", "z", "b"): 150,
    ("c", "w", "a"): 90,
    ("b", "none", "b"): 0,
    ("a", "v", "a"): 40,
}


def same(one, other, tolerance=1e-5):
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * max(1.0, float(other.detach().abs().max()) if other.numel() else 1.0))


def with_grads(layer, x, *others):
    """The output, and the gradients of x and all parameters by name."""
    x = x.detach().clone().requires_grad_()
    out = layer(x, *others)
    (out * torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out)).sum().backward()
    return [out, x.grad, *[parameter.grad for _, parameter in sorted(layer.named_parameters())]]


class Relations(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)

    def graph(self, nodes=80, edges=700, relations=9):
        edge_index = torch.randint(nodes, (2, edges), device=DEVICE)
        return torch.randn(nodes, 12, device=DEVICE), edge_index, torch.randint(relations, (edges,), device=DEVICE)

    def test_grouped_products_are_products_of_each_group(self):
        for ends, width in (([8, 8, 24, 40], 5), ([0, 0, 0], 3), ([64, 200], 70), ([16], 1)):
            rows = torch.randn(ends[-1] + 3, 9, device=DEVICE, requires_grad=True)
            weights = torch.randn(len(ends), 9, width, device=DEVICE, requires_grad=True)
            found = ops.grouped_product(rows, weights, torch.tensor(ends, dtype=torch.int32, device=DEVICE))
            parts = [rows[first:end] @ weight for first, end, weight in zip([0, *ends], ends, weights)]
            expected = torch.cat([*parts, rows[ends[-1] :].detach() @ torch.zeros_like(weights[0])])
            same(found, expected)
            grad = torch.randn_like(found)
            for one, other in zip(torch.autograd.grad(found, (rows, weights), grad), torch.autograd.grad(expected, (rows, weights), grad)):
                same(one, other)

    def test_grouped_products_of_bfloat16_are_rounded_ones(self):
        for ends, width in (([8, 8, 24, 40], 5), ([64, 200], 64), ([16], 1), ([8, 20000, 20000, 20016], 9)):
            rows, weights = torch.randn(ends[-1], 9, device=DEVICE), torch.randn(len(ends), 9, width, device=DEVICE)
            made = []
            for dtype in (torch.bfloat16, torch.float32):
                inputs = [tensor.bfloat16().to(dtype).requires_grad_() for tensor in (rows, weights)]
                out = ops.grouped_product(*inputs, torch.tensor(ends, dtype=torch.int32, device=DEVICE))
                self.assertEqual(out.dtype, dtype)
                made.append([out, *torch.autograd.grad(out.float().square().sum(), inputs)])
            for one, other in zip(*made):
                same(one.float(), other, 2e-2)

    def test_rgcn_is_that_of_pyg(self):
        x, edge_index, types = self.graph()
        for options in ({}, {"num_bases": 4}, {"num_blocks": 3}, {"aggr": "add"}, {"root_weight": False, "bias": False}):
            mine, other = RGCNConv(12, 6, 9, **options).to(DEVICE), pyg.RGCNConv(12, 6, 9, **options).to(DEVICE)
            other.load_state_dict(mine.state_dict())
            for one, two in zip(with_grads(mine, x, edge_index, types), with_grads(other, x, edge_index, types), strict=True):
                same(one, two)

    def test_rgcn_without_features_is_that_of_pyg(self):
        _, edge_index, types = self.graph()
        for options in ({}, {"num_bases": 2}):
            mine, other = RGCNConv(80, 6, 9, **options).to(DEVICE), pyg.RGCNConv(80, 6, 9, **options).to(DEVICE)
            other.load_state_dict(mine.state_dict())
            same(mine(None, edge_index, types), other(None, edge_index, types))

    def test_rgcn_takes_many_relations_and_none(self):
        x, edge_index, types = self.graph(relations=474)
        mine, other = RGCNConv(12, 6, 474).to(DEVICE), pyg.RGCNConv(12, 6, 474).to(DEVICE)
        other.load_state_dict(mine.state_dict())
        same(mine(x, edge_index, types), other(x, edge_index, types))
        same(mine(x, edge_index[:, :0], types[:0]), other(x, edge_index[:, :0], types[:0]))

    def hetero(self, width):
        x = {kind: torch.randn(count, width, device=DEVICE) for kind, count in NODES.items()}
        edges = {
            kind: torch.stack([torch.randint(NODES[kind[0]], (count,)), torch.randint(NODES[kind[2]], (count,))]).to(DEVICE)
            for kind, count in RELATIONS.items()
        }
        return x, edges

    def compare(self, mine_of, pyg_of, tolerance=1e-5, columns=10):
        """Outputs of two layers, one after the other, and gradients of inputs and parameters."""
        x, edges = self.hetero(columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyG's, of types that get nothing
            mine = [HeteroConv({kind: mine_of(width) for kind in RELATIONS}).to(DEVICE) for width in (columns, 8)]
            other = [pyg.HeteroConv({kind: pyg_of(width) for kind in RELATIONS}).to(DEVICE) for width in (columns, 8)]
        results = []
        for layers in (mine, other):
            layers[0].load_state_dict(mine[0].state_dict())
            layers[1].load_state_dict(mine[1].state_dict())
            inputs = {kind: rows.clone().requires_grad_() for kind, rows in x.items()}
            first = layers[0](inputs, edges)
            # Nothing goes to the type c, which PyG's layer cannot do without.
            last = layers[1]({kind: rows.relu() for kind, rows in first.items()} | {"c": inputs["c"][:, :8]}, edges)
            sum((rows * torch.linspace(-1, 1, rows.numel(), device=DEVICE).view_as(rows)).sum() for rows in last.values()).backward()
            parameters = [parameter.grad for layer in layers for _, parameter in sorted(layer.named_parameters())]
            results.append((first, last, [rows.grad for rows in inputs.values()] + parameters))
        for one, two in zip(results[0][:2], results[1][:2]):
            self.assertEqual(sorted(one), sorted(two))
            for kind in one:
                same(one[kind], two[kind], tolerance)
        for one, two in zip(results[0][2], results[1][2], strict=True):
            # PyG leaves parameters of relations without gradients of their own; ours are zero.
            same(one, torch.zeros_like(one) if two is None else two, tolerance)
        self.assertTrue(all(layer._compute is not None for layer in mine))

    def test_sage_over_relations_is_that_of_pyg(self):
        self.compare(lambda width: SAGEConv(width, 8), lambda width: pyg.SAGEConv((width, width), 8))

    def test_attention_over_relations_is_that_of_pyg(self):
        options = {"heads": 2, "add_self_loops": False}
        for columns in (10, 40):  # more than the heads of all relations have scores, or fewer
            self.compare(lambda width: GATConv(width, 4, **options), lambda width: pyg.GATConv(width, 4, **options), 2e-5, columns)

    def test_attention_over_relations_in_bfloat16_is_rounded(self):
        x, edges = self.hetero(40)
        results = []
        layer = HeteroConv({kind: GATConv(40, 8, heads=2, add_self_loops=False, negative_slope=0.9) for kind in RELATIONS}).to(DEVICE, torch.bfloat16)
        for dtype in (torch.bfloat16, torch.float32):
            inputs = {kind: rows.bfloat16().to(dtype).requires_grad_() for kind, rows in x.items()}
            out = layer.to(dtype)(inputs, edges)
            self.assertEqual({rows.dtype for rows in out.values()}, {dtype})
            loss = sum((rows.float() * torch.linspace(-1, 1, rows.numel(), device=DEVICE).view_as(rows)).sum() for rows in out.values())
            # The gradient of att_dst nearly cancels, and rounding is all that is left.
            parameters = [parameter for name, parameter in layer.named_parameters() if not name.endswith("att_dst")]
            results.append([*out.values(), *torch.autograd.grad(loss, [*inputs.values(), *parameters])])
        for one, other in zip(*results, strict=True):
            same(one.float(), other, 4e-2)

    def test_unequal_layers_are_called_one_after_the_other(self):
        x, edges = self.hetero(10)
        layers = {kind: SAGEConv(10, 8) if kind[0] == "a" else pyg.SAGEConv((10, 10), 8) for kind in RELATIONS}
        mixed, plain = HeteroConv(layers).to(DEVICE), HeteroConv({kind: SAGEConv(10, 8) for kind in RELATIONS}).to(DEVICE)
        plain.load_state_dict(mixed.state_dict())
        self.assertIsNone(mixed._compute)
        for kind, rows in mixed(x, edges).items():
            same(rows, plain(x, edges)[kind])

    def test_parameters_of_relations_without_edges_have_zero_gradients(self):
        x, edges = self.hetero(10)
        layer = HeteroConv({kind: SAGEConv(10, 8) for kind in RELATIONS}).to(DEVICE)
        sum(rows.sum() for rows in layer(x, edges).values()).backward()
        self.assertTrue(all(parameter.grad is not None for parameter in layer.parameters()))
        self.assertEqual(float(layer.convs["<b___none___b>"].lin_l.weight.grad.abs().max()), 0)

    def test_mistakes_are_named(self):
        x, edge_index, types = self.graph()
        with self.assertRaisesRegex(strata.InputError, "edge_type is left out"):
            RGCNConv(12, 6, 9)(x, edge_index)
        with self.assertRaisesRegex(strata.InputError, "relations outside"):  # a GPU stops at them
            RGCNConv(12, 6, 3)(x.cpu(), edge_index.cpu(), types.cpu())
        with self.assertRaisesRegex(strata.InputError, "must divide"):
            RGCNConv(12, 7, 9, num_blocks=3)


if __name__ == "__main__":
    unittest.main()
