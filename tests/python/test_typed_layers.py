# SPDX-License-Identifier: Apache-2.0
"""Layers with weights for each type or relation: outputs and gradients are those of PyG's layers with the same weights."""

import copy
import io
import pickle
import threading
import unittest
import warnings
from unittest import mock

import torch
import torch_geometric.nn as pyg

import strata
from strata.nn import GATConv, HeteroConv, HeteroDictLinear, HeteroLinear, HGTConv, RGATConv, RGCNConv, SAGEConv, relations

DEVICE = torch.device(strata.process().device)
NODES = {"a": 60, "b": 25, "c": 7, "keys.d": 11}
# The first but two has no edges, the last is parallel to the first.
RELATIONS = {
    ("a", "x", "a"): 300,
    ("b", "y", "a"): 200,
    ("a", "z", "b"): 150,
    ("c", "w", "a"): 90,
    ("b", "none", "b"): 0,
    ("keys.d", "at", "c"): 20,
    ("a", "v", "a"): 40,
}


def same(one, other, tolerance=1e-5):
    scale = max(1.0, float(other.detach().abs().max()) if other.numel() else 1.0)
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * scale)


def hetero(widths):
    x = {kind: torch.randn(count, widths.get(kind, 12), device=DEVICE) for kind, count in NODES.items()}
    edges = {
        kind: torch.stack([torch.randint(NODES[kind[0]], (count,)), torch.randint(NODES[kind[2]], (count,))]).to(DEVICE)
        for kind, count in RELATIONS.items()
    }
    return x, edges


def graded(layer, inputs, call):
    """Outputs, and gradients of all inputs and parameters; 0 where there is none."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    outs = call(layer, *inputs)
    layer.zero_grad()
    sum((out * torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out)).sum() for out in outs).backward()
    tensors = [*inputs, *[parameter for _, parameter in sorted(layer.named_parameters())]]
    return [*outs, *[torch.zeros_like(tensor) if tensor.grad is None else tensor.grad for tensor in tensors]]


class TypedLayers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)

    def compare(self, mine, other, inputs, call, tolerance=1e-5):
        other.load_state_dict(mine.state_dict())
        for one, two in zip(graded(mine, inputs, call), graded(other, inputs, call), strict=True):
            same(one, two, tolerance)

    def test_linear_by_type_is_that_of_pyg(self):
        for bias in (True, False):
            for types in (torch.randint(7, (90,)), torch.full((5,), 3), torch.empty(0, dtype=torch.int64)):
                mine, other = HeteroLinear(12, 5, 7, bias=bias).to(DEVICE), pyg.HeteroLinear(12, 5, 7, bias=bias).to(DEVICE)
                types = types.to(DEVICE)
                self.compare(
                    mine, other, [torch.randn(len(types), 12, device=DEVICE)], lambda layer, x, types=types: [layer(x, types)]
                )

    def test_linear_of_dicts_is_that_of_pyg(self):
        for widths in ({"a": 12, "b": 12, "c": 12}, {"a": 12, "b": 3, "c": 40}):
            mine, other = HeteroDictLinear(widths, 6).to(DEVICE), pyg.HeteroDictLinear(widths, 6).to(DEVICE)
            x = {kind: torch.randn(count, widths[kind], device=DEVICE) for kind, count in (("a", 33), ("b", 0), ("c", 8))}

            def call(layer, *rows):
                made = layer(dict(zip(x, rows)))
                self.assertEqual(list(made), list(x))
                return list(made.values())

            self.compare(mine, other, list(x.values()), call)

    def test_hgt_is_that_of_pyg(self):
        for widths, heads in (({}, 4), ({"a": 3, "b": 12, "c": 40}, 1), ({kind: 16 for kind in NODES}, 2)):
            x, edges = hetero(widths)
            sizes = {kind: rows.shape[1] for kind, rows in x.items()}
            plain = {kind: "d" if kind == "keys.d" else kind for kind in x}  # a dot is too much for PyG's layer
            metadata = ([plain[kind] for kind in x], [(plain[a], name, plain[b]) for a, name, b in edges])
            columns = {plain[kind]: size for kind, size in sizes.items()}
            mine, other = HGTConv(columns, 16, metadata, heads).to(DEVICE), pyg.HGTConv(columns, 16, metadata, heads).to(DEVICE)
            for parameter in mine.parameters():  # skip and p_rel begin as ones
                parameter.data += torch.randn_like(parameter) / 9

            def call(layer, *rows, edges=edges, metadata=metadata):
                made = layer(dict(zip(metadata[0], rows)), dict(zip(metadata[1], edges.values())))
                self.assertEqual(sorted(made), ["a", "b", "c"])
                return [made[kind] for kind in sorted(made)]

            self.compare(mine, other, list(x.values()), call, 2e-5)

    def test_hgt_takes_names_with_dots(self):
        x, edges = hetero({})
        layer = HGTConv(12, 8, (list(NODES), list(RELATIONS)), heads=2).to(DEVICE)
        self.assertEqual(layer(x, edges)["c"].shape, (7, 8))
        self.assertIn("p_rel.keys#d__at__c", layer.state_dict())

    def test_rgat_is_that_of_pyg(self):
        for options in (
            {},
            {"heads": 3},
            {"heads": 2, "concat": False, "num_bases": 4},
            {"heads": 2, "num_blocks": 3, "negative_slope": 0.1},
            {"heads": 2, "attention_mode": "multiplicative-self-attention", "dim": 3},
            {"heads": 2, "attention_mode": "multiplicative-self-attention", "dim": 2, "concat": False, "bias": False},
            {"heads": 2, "edge_dim": 5},
            {"attention_mechanism": "within-relation", "heads": 2},
        ):
            mine, other = RGATConv(12, 6, 9, **options).to(DEVICE), pyg.RGATConv(12, 6, 9, **options).to(DEVICE)
            other.load_state_dict(mine.state_dict())
            edge_index, types = torch.randint(80, (2, 700), device=DEVICE), torch.randint(8, (700,), device=DEVICE)
            attr = torch.randn(700, 5, device=DEVICE) if "edge_dim" in options else None
            results = []
            for layer in (mine, other):
                torch.manual_seed(1)
                x = torch.randn(80, 12, device=DEVICE)
                for name in ("w", "l1", "b1", "l2", "b2"):  # are parameters of PyG's layer, which it does not use
                    if name in dict(layer.named_parameters()):
                        value = layer._parameters.pop(name)
                        layer.register_buffer(name, value.data)
                results.append(graded(layer, [x], lambda layer, x: [layer(x, edge_index, types, attr)]))
            for one, two in zip(*results, strict=True):
                same(one, two, 2e-5)

    def test_layers_take_no_edges(self):
        x, edges = hetero({})
        none = {kind: edge_index[:, :0] for kind, edge_index in edges.items()}
        metadata = (list(NODES), list(RELATIONS))
        for layer in (
            HGTConv(12, 8, metadata, heads=2),
            HeteroConv({kind: SAGEConv(12, 8) for kind in RELATIONS}),
            HeteroConv({kind: GATConv(12, 4, heads=2, add_self_loops=False) for kind in RELATIONS}),
        ):
            layer.to(DEVICE)
            made = layer(x, none)
            self.assertTrue(all(bool(rows.isfinite().all()) for rows in made.values()))
            sum(rows.sum() for rows in made.values()).backward()
        nothing = torch.empty((2, 0), dtype=torch.int64, device=DEVICE)
        for layer in (RGATConv(12, 8, 5), RGCNConv(12, 8, 5)):
            out = layer.to(DEVICE)(x["a"], nothing, nothing[0])
            self.assertEqual(out.shape, (60, 8))
            out.sum().backward()
            self.assertEqual(float(layer.weight.grad.abs().max()), 0)

    def all_layers(self):
        """Layers with a call of each."""
        x, edges = hetero({})
        typed = [(edges, x)] * 3
        edge_index, types = torch.randint(60, (2, 500), device=DEVICE), torch.randint(5, (500,), device=DEVICE)
        metadata = (list(NODES), list(RELATIONS))
        layers = [
            HGTConv(12, 8, metadata, heads=2),
            HeteroConv({kind: SAGEConv(12, 8) for kind in RELATIONS}),
            HeteroConv({kind: GATConv(12, 4, heads=2, add_self_loops=False) for kind in RELATIONS}, "mean"),
        ]
        calls = [lambda layer, edges=edges, x=x: torch.cat(list(layer(x, edges).values())) for edges, x in typed]
        for layer in (RGCNConv(12, 8, 5), RGATConv(12, 4, 5, heads=2)):
            layers.append(layer)
            calls.append(lambda layer: layer(x["a"], edge_index, types))
        layers.append(HeteroLinear(12, 8, 5))
        calls.append(lambda layer: layer(x["a"], types[:60]))
        return [(layer.to(DEVICE), call) for layer, call in zip(layers, calls)]

    def test_lengths_that_only_the_device_knows_change_nothing(self):
        for layer, call in self.all_layers():
            outs = []
            for is_read in (True, False):
                with mock.patch.object(relations, "_is_read_at_once", lambda values, is_read=is_read: is_read):
                    relations._made.clear()
                    outs.append(graded(layer, [], lambda layer, call=call: [call(layer)]))
            for one, two in zip(*outs, strict=True):
                if DEVICE.type == "cpu":
                    self.assertTrue(torch.equal(one, two), type(layer).__name__)
                else:  # products of other lengths may be split in another way
                    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)

    def test_the_host_never_waits_for_a_gpu(self):
        if DEVICE.type != "cuda":
            self.skipTest("needs a GPU")
        for layer, call in self.all_layers():
            call(layer).sum().backward()  # what a first call allocates and loads
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
            try:
                call(layer).sum().backward()
            finally:
                torch.cuda.set_sync_debug_mode("default")

    def test_results_have_the_same_bits_in_every_run(self):
        for layer, call in self.all_layers():
            runs = [graded(layer, [], lambda layer, call=call: [call(layer)]) for _ in range(2)]
            self.assertTrue(all(torch.equal(one, two) for one, two in zip(*runs, strict=True)))

    def test_layers_are_copied_and_saved(self):
        for layer, call in self.all_layers():
            expected = call(layer)
            stream = io.BytesIO()
            torch.save(layer.state_dict(), stream)
            for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
                self.assertTrue(torch.equal(call(again), expected))
            stream.seek(0)
            layer.reset_parameters()
            layer.load_state_dict(torch.load(stream))
            with torch.no_grad():
                self.assertTrue(torch.equal(call(layer), expected))
            with torch.inference_mode():
                self.assertTrue(torch.equal(call(layer), expected))

    def test_training_takes_what_inference_made(self):
        for make in (lambda: RGCNConv(12, 8, 5), lambda: RGATConv(12, 8, 5)):
            layer, x = make().to(DEVICE), torch.randn(60, 12, device=DEVICE)
            edge_index, types = torch.randint(60, (2, 500), device=DEVICE), torch.randint(5, (500,), device=DEVICE)
            with torch.inference_mode():
                expected = layer(x, edge_index, types)
            out = layer(x, edge_index, types)
            out.sum().backward()
            self.assertTrue(torch.equal(out, expected))

    def test_autocast_gives_bfloat16(self):
        for layer, call in self.all_layers():
            expected = call(layer)
            with torch.autocast(DEVICE.type, torch.bfloat16):
                out = call(layer)
            self.assertEqual(out.dtype, torch.bfloat16, type(layer).__name__)
            same(out.float(), expected, 5e-2)
            out.float().square().sum().backward()
            self.assertTrue(
                all(parameter.grad is None or parameter.grad.dtype == torch.float32 for parameter in layer.parameters())
            )

    def test_compiled_models_call_them_as_they_are(self):
        for layer, call in self.all_layers():
            made = torch.compile(lambda layer=layer, call=call: call(layer).relu() * 2, backend="eager")()
            self.assertTrue(torch.equal(made, call(layer).relu() * 2))

    def test_two_threads_train_at_once(self):
        def train(seed, results):
            layer, call = pairs[seed]
            for _ in range(5):
                results[seed] = graded(layer, [], lambda layer: [call(layer)])

        pairs, alone, together = self.all_layers()[:2], {}, {}
        for number in range(2):
            train(number, alone)
        threads = [threading.Thread(target=train, args=(number, together)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number in range(2):
            self.assertTrue(all(torch.equal(*pair) for pair in zip(alone[number], together[number], strict=True)))

    def test_mistakes_are_named(self):
        x, edges = hetero({})
        metadata = (list(NODES), list(RELATIONS))
        for call, message in (
            (lambda: HGTConv(12, 9, metadata, heads=2), "heads=2.*not possible"),
            (lambda: HGTConv(12, 8, metadata).to(DEVICE)({"z": x["a"]}, edges), "none of the layer's types"),
            (lambda: RGATConv(12, 8, 5, mod="scaled"), "mod='scaled'"),
            (lambda: RGATConv(12, 8, 5, dim=2), "dim=2"),
            (lambda: RGATConv(12, 8, 5).to(DEVICE)(x["a"], edges[("a", "x", "a")]), "edge_type is left out"),
            (lambda: HeteroLinear(12, 8, 5).to(DEVICE)(x["a"], torch.zeros(3)), "type_vec"),
            (lambda: HeteroDictLinear(12, 8), "no types"),
        ):
            with self.assertRaisesRegex(strata.InputError, message), warnings.catch_warnings():
                call()


if __name__ == "__main__":
    unittest.main()
