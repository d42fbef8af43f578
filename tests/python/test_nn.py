# SPDX-License-Identifier: Apache-2.0
"""The layers of strata.nn beside torch_geometric's: the same parameters, results and gradients."""

import gc
import subprocess
import sys
import unittest
import unittest.mock
import warnings
import weakref

import torch
import torch_geometric.nn as pyg

import strata
import strata.nn as ours
from strata.nn import ops
from strata.nn.edges import lists_of

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() and strata.with_cuda else ["cpu"]
COLUMNS, OUT = 12, 8


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(COLUMNS, OUT), torch.nn.ReLU(), torch.nn.Linear(OUT, OUT))


# Layers that take x of sources and destinations alike.
LAYERS = {
    "SAGE mean": lambda nn: nn.SAGEConv(COLUMNS, OUT),
    "SAGE sum": lambda nn: nn.SAGEConv(COLUMNS, OUT, aggr="sum", bias=False),
    "SAGE max": lambda nn: nn.SAGEConv(COLUMNS, OUT, aggr="max"),
    "SAGE normalized": lambda nn: nn.SAGEConv(COLUMNS, OUT, normalize=True),
    "SAGE without root": lambda nn: nn.SAGEConv(COLUMNS, OUT, root_weight=False),
    "GCN": lambda nn: nn.GCNConv(COLUMNS, OUT),
    "GCN improved": lambda nn: nn.GCNConv(COLUMNS, OUT, improved=True, bias=False),
    "GCN without loops": lambda nn: nn.GCNConv(COLUMNS, OUT, add_self_loops=False),
    "GCN not normalized": lambda nn: nn.GCNConv(COLUMNS, OUT, normalize=False),
    "GAT": lambda nn: nn.GATConv(COLUMNS, OUT, heads=3),
    "GAT mean": lambda nn: nn.GATConv(COLUMNS, OUT, heads=2, concat=False, negative_slope=0.05),
    "GAT without loops": lambda nn: nn.GATConv(COLUMNS, OUT, heads=2, add_self_loops=False, bias=False),
    "GAT residual": lambda nn: nn.GATConv(COLUMNS, OUT, heads=2, residual=True),
    "GIN": lambda nn: nn.GINConv(mlp(), eps=0.3),
    "GIN trained eps": lambda nn: nn.GINConv(mlp(), eps=-0.2, train_eps=True),
}
# Layers of a graph whose sources and destinations have columns of their own.
BIPARTITE = {
    "SAGE": lambda nn: nn.SAGEConv((COLUMNS, 5), OUT),
    "SAGE max": lambda nn: nn.SAGEConv((COLUMNS, 5), OUT, aggr="max"),
    "GAT": lambda nn: nn.GATConv((COLUMNS, 5), OUT, heads=2, residual=True),
    "GAT without loops": lambda nn: nn.GATConv((COLUMNS, 5), OUT, heads=3, add_self_loops=False),
}
# Graphs of (sources, destinations, edges).
GRAPHS = {"usual": (60, 60, 300), "no edges": (7, 7, 0), "dense": (10, 10, 200), "empty": (0, 0, 0)}


def random_edges(num_src, num_dst, count, seed=0, device="cpu"):
    """In no order; with loops, parallel edges, and nodes that have no edges."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.rand(2, count, generator=generator) * torch.tensor([[num_src], [max(num_dst - 3, min(num_dst, 1))]])
    edges = ends.long()
    third = count // 3
    edges[0, :third] = edges[1, :third].clamp(max=max(num_src - 1, 0))
    edges[:, third : third + third // 2] = edges[:, -(third // 2) :] if third > 1 else edges[:, third:third]
    return edges.to(device)


def random_rows(count, columns, seed, device="cpu"):
    rows = torch.randn(count, columns, generator=torch.Generator().manual_seed(seed))
    return rows.to(device).requires_grad_()


def pair(make, device):
    """torch_geometric's layer and ours, with the same weights."""
    torch.manual_seed(1)
    theirs, mine = make(pyg).to(device), make(ours).to(device)
    for parameter in theirs.parameters():  # some begin with zeros
        torch.nn.init.normal_(parameter, std=0.3)
    mine.load_state_dict(theirs.state_dict())
    return theirs, mine


def result_and_gradients(call, layer, inputs):
    """The result, and the gradients of inputs and parameters for a random gradient of the result."""
    wanted = [*inputs, *layer.parameters()]
    out = call(layer)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out.device)
    grads = torch.autograd.grad((out * weights).sum(), wanted, allow_unused=True)
    return out, [torch.zeros_like(tensor) if grad is None else grad for tensor, grad in zip(wanted, grads)]


def block_of(edges, num_src, num_dst):
    lists = ours.EdgeLists.of_edge_index(edges, num_src, num_dst)
    return strata.Block(edges[:, lists.origins], lists.indptr, lists.indices, None, torch.arange(num_src), num_src, num_dst)


class Compared(unittest.TestCase):
    def check(self, their_call, my_call, layers, inputs):
        theirs, mine = layers
        expected, expected_grads = result_and_gradients(their_call, theirs, inputs)
        out, grads = result_and_gradients(my_call, mine, inputs)
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
        for grad, expected_grad in zip(grads, expected_grads):
            torch.testing.assert_close(grad, expected_grad, rtol=1e-4, atol=1e-4)


class Layers(Compared):
    def each(self, layers):
        for device in DEVICES:
            for name, make in layers.items():
                with self.subTest(device=device, layer=name):
                    yield device, pair(make, device)

    def test_equal_torch_geometrics(self):
        for graph, (nodes, _, count) in GRAPHS.items():
            for device, layers in self.each(LAYERS):
                with self.subTest(graph=graph):
                    edges, x = random_edges(nodes, nodes, count, device=device), random_rows(nodes, COLUMNS, 2, device)
                    self.check(lambda layer: layer(x, edges), lambda layer: layer(x, edges), layers, [x])

    def test_equal_torch_geometrics_on_blocks(self):
        for num_src, num_dst, count in ((60, 25, 300), (40, 8, 0), (9, 9, 50), (0, 0, 0)):
            edges = random_edges(num_src, num_dst, count)
            for device, layers in self.each(LAYERS):
                with self.subTest(sizes=(num_src, num_dst, count)):
                    x = random_rows(num_src, COLUMNS, 3, device)
                    block = block_of(edges.to(device), num_src, num_dst)

                    def their_call(layer):
                        if isinstance(layer, pyg.GCNConv):
                            return layer(x, block.edge_index)[:num_dst]
                        return layer((x, x[:num_dst]), block.edge_index, size=block.size)

                    self.check(their_call, lambda layer: layer(x, block), layers, [x])

    def test_equal_torch_geometrics_on_bipartite_graphs(self):
        for num_src, num_dst, count in ((40, 70, 300), (70, 40, 300), (5, 9, 0)):
            for device, layers in self.each(BIPARTITE):
                with self.subTest(sizes=(num_src, num_dst, count)):
                    edges = random_edges(num_src, num_dst, count, device=device)
                    x = random_rows(num_src, COLUMNS, 4, device), random_rows(num_dst, 5, 5, device)
                    self.check(lambda layer: layer(x, edges), lambda layer: layer(x, edges), layers, x)

    def test_take_pairs_that_share_a_map_or_lack_destinations(self):
        for device, layers in self.each({name: LAYERS[name] for name in ("SAGE mean", "GIN", "GAT", "GAT without loops")}):
            edges = random_edges(30, 45, 200, device=device)
            x_src, x_dst = random_rows(30, COLUMNS, 6, device), random_rows(45, COLUMNS, 7, device)
            self.check(lambda layer: layer((x_src, x_dst), edges), lambda layer: layer((x_src, x_dst), edges), layers, [x_src, x_dst])
            alone = (x_src, None)
            self.check(
                lambda layer: layer(alone, edges, size=(30, 45)), lambda layer: layer(alone, edges, size=(30, 45)), layers, [x_src]
            )

    def test_weigh_edges(self):
        weighted = {name: make for name, make in LAYERS.items() if name.startswith("GCN")}
        for device, layers in self.each(weighted):
            # Of a node's own loops torch_geometric takes any one, so that all weigh the same here.
            edges, x = random_edges(50, 50, 250, device=device), random_rows(50, COLUMNS, 2, device)
            weights = random_rows(250, 1, 8, device).detach().abs().squeeze(1)
            weights = torch.where(edges[0] == edges[1], 0.5 + edges[0] / 50, weights)
            self.check(lambda layer: layer(x, edges, weights), lambda layer: layer(x, edges, weights), layers, [x])
            block = block_of(edges, 50, 50)
            of_block = weights[lists_of(edges, 50, 50).origins]
            self.check(lambda layer: layer(x, edges, weights), lambda layer: layer(x, block, of_block), layers, [x])

    def test_exchange_state_dicts_both_ways(self):
        for make in [*LAYERS.values(), *BIPARTITE.values()]:
            theirs, mine = make(pyg), make(ours)
            with self.subTest(layer=str(theirs)):
                shapes = {name: tensor.shape for name, tensor in theirs.state_dict().items()}
                self.assertEqual({name: tensor.shape for name, tensor in mine.state_dict().items()}, shapes)
                theirs.load_state_dict(mine.state_dict())
                for name, tensor in mine.state_dict().items():
                    torch.testing.assert_close(theirs.state_dict()[name], tensor, rtol=0, atol=0)

    def test_begin_with_torch_geometrics_distributions(self):
        for name, make in {"SAGE": lambda nn: nn.SAGEConv(300, 200), "GCN": lambda nn: nn.GCNConv(300, 200),
                           "GAT": lambda nn: nn.GATConv(300, 200, heads=8)}.items():
            with self.subTest(layer=name):
                theirs, mine = dict(make(pyg).named_parameters()), dict(make(ours).named_parameters())
                for parameter, tensor in mine.items():
                    torch.testing.assert_close(tensor.abs().max(), theirs[parameter].abs().max(), rtol=0.05, atol=0)
                    torch.testing.assert_close(tensor.std(), theirs[parameter].std(), rtol=0.1, atol=0)

    def test_take_bfloat16(self):
        for device, (_, mine) in self.each(LAYERS):
            edges, x = random_edges(60, 60, 300, device=device), random_rows(60, COLUMNS, 2, device)
            expected, _ = result_and_gradients(lambda layer: layer(x, edges), mine, [x])
            half = mine.to(torch.bfloat16)
            rows = x.detach().bfloat16().requires_grad_()
            out, grads = result_and_gradients(lambda layer: layer(rows, edges), half, [rows])
            self.assertEqual({out.dtype, *(grad.dtype for grad in grads)}, {torch.bfloat16})
            self.assertLess((out.float() - expected).abs().max(), 0.05 * expected.abs().max())

    def test_follow_autocast(self):
        for device, (theirs, mine) in self.each(LAYERS):
            edges, x = random_edges(60, 60, 300, device=device), random_rows(60, COLUMNS, 2, device)
            expected = result_and_gradients(lambda layer: layer(x, edges), theirs, [x])
            for dtype, tolerance in ((torch.float16, 0.02), (torch.bfloat16, 0.2)):
                with self.subTest(dtype=dtype), torch.autocast(device, dtype=dtype):
                    found = result_and_gradients(lambda layer: layer(x, edges), mine, [x])
                    self.check_near(found, expected, tolerance)

    def test_follow_autocast_with_weights_and_one_after_the_other(self):
        models = {
            "SAGE": lambda nn: [nn.SAGEConv(COLUMNS, 16), nn.SAGEConv(16, 8, aggr="sum"), nn.SAGEConv(8, 4)],
            "GCN": lambda nn: [nn.GCNConv(COLUMNS, 16), nn.GCNConv(16, 4)],
            "GAT": lambda nn: [nn.GATConv(COLUMNS, 8, heads=2), nn.GATConv(16, 4, residual=True)],
            "GIN": lambda nn: [nn.GINConv(torch.nn.Linear(COLUMNS, 16)), nn.GINConv(torch.nn.Linear(16, 4), train_eps=True)],
        }
        for device, layers in self.each({name: lambda nn, make=make: torch.nn.ModuleList(make(nn)) for name, make in models.items()}):
            edges, x = random_edges(60, 60, 300, device=device), random_rows(60, COLUMNS, 2, device)
            # Parallel loops weigh the same, for torch_geometric takes any one.
            weights = () if not isinstance(layers[0][0], pyg.GCNConv) else (0.5 + (edges[0] + edges[1]) / 120,)

            def run(model):
                hidden = x
                for layer in model:
                    hidden = layer(hidden, edges, *weights).tanh()
                return hidden

            expected = result_and_gradients(run, layers[0], [x])
            for dtype, tolerance in ((torch.float16, 0.02), (torch.bfloat16, 0.2)):
                with self.subTest(dtype=dtype), torch.autocast(device, dtype=dtype):
                    self.check_near(result_and_gradients(run, layers[1], [x]), expected, tolerance)

    def check_near(self, found, expected, tolerance):
        for one, other in zip([found[0], *found[1]], [expected[0], *expected[1]]):
            self.assertLessEqual((one.float() - other).norm(), tolerance * other.norm())

    def test_replace_loops_however_many_there_are(self):
        for device, (theirs, mine) in self.each({name: LAYERS[name] for name in ("GCN", "GCN improved")}):
            exact = theirs.double()
            edges = random_edges(20, 20, 60, device=device)
            for loops in (1, 3000, 70000):
                of_three = torch.tensor([3, 19, 0], device=device).repeat_interleave(torch.tensor([loops, loops // 3, 1], device=device))
                many = torch.cat([of_three.expand(2, -1), edges], dim=1)[:, torch.randperm(len(of_three) + 60, device=device)]
                x = random_rows(20, COLUMNS, 2, device)
                for weights in ((), (0.5 + (many[0] + many[1]) / 40,)):
                    with self.subTest(loops=loops, weighted=len(weights)):
                        wide = [weight.double() for weight in weights]
                        expected = result_and_gradients(lambda layer: layer(x.double(), many, *wide), exact, [x])
                        found = result_and_gradients(lambda layer: layer(x, many, *weights), mine, [x])
                        for one, other in zip([found[0], *found[1]], [expected[0], *expected[1]]):
                            torch.testing.assert_close(one, other.float(), rtol=1e-5, atol=1e-5)

    def test_repeat_their_bits(self):
        for device, (_, mine) in self.each(LAYERS):
            edges, x = random_edges(500, 500, 20000, device=device), random_rows(500, COLUMNS, 2, device)
            first = result_and_gradients(lambda layer: layer(x, edges), mine, [x])
            again = result_and_gradients(lambda layer: layer(x, edges.clone()), mine, [x])
            for one, other in zip([first[0], *first[1]], [again[0], *again[1]]):
                self.assertTrue(torch.equal(one, other))


class Training(unittest.TestCase):
    def losses(self, layers, x, edges, labels):
        optimizer = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr=0.02)
        losses = []
        for _ in range(8):
            optimizer.zero_grad()
            hidden = layers[0](x, edges).relu()
            loss = torch.nn.functional.cross_entropy(layers[1](hidden, edges), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def test_follows_torch_geometrics_losses(self):
        models = {
            "SAGE": lambda nn: [nn.SAGEConv(COLUMNS, 16), nn.SAGEConv(16, 4)],
            "GCN": lambda nn: [nn.GCNConv(COLUMNS, 16), nn.GCNConv(16, 4)],
            "GAT": lambda nn: [nn.GATConv(COLUMNS, 8, heads=2), nn.GATConv(16, 4, heads=3, concat=False)],
            "GIN": lambda nn: [nn.GINConv(torch.nn.Linear(COLUMNS, 16)), nn.GINConv(torch.nn.Linear(16, 4), train_eps=True)],
        }
        for device in DEVICES:
            edges, x = random_edges(200, 200, 1200, device=device), random_rows(200, COLUMNS, 2, device).detach()
            labels = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
            for name, make in models.items():
                with self.subTest(device=device, model=name):
                    theirs, mine = ([layer.to(device) for layer in make(nn)] for nn in (pyg, ours))
                    for one, other in zip(theirs, mine):
                        other.load_state_dict(one.state_dict())
                    expected = self.losses(theirs, x, edges, labels)
                    self.assertLess(expected[-1], expected[0])
                    torch.testing.assert_close(self.losses(mine, x, edges, labels), expected, rtol=1e-3, atol=1e-3)

    def test_drops_attention_at_the_wanted_rate_and_only_in_training(self):
        for device in DEVICES:
            with self.subTest(device=device):
                layer = ours.GATConv(COLUMNS, 4, heads=2, dropout=0.4).to(device)
                edges, x = random_edges(300, 300, 3000, device=device), random_rows(300, COLUMNS, 2, device)
                self.assertTrue(torch.equal(layer.eval()(x, edges), layer(x, edges)))
                expected = layer(x, edges)
                layer.train()
                torch.manual_seed(3)
                out = [layer(x, edges) for _ in range(100)]
                self.assertFalse(torch.equal(out[0], out[1]))
                spread = torch.stack(out).std(0).mean() / 100**0.5
                self.assertLess((torch.stack(out).mean(0) - expected).abs().mean(), 3 * spread)
                torch.manual_seed(3)
                self.assertTrue(torch.equal(layer(x, edges), out[0]))

    def test_gradients_repeat_the_dropout_of_the_forward_pass(self):
        edges, x = random_edges(12, 12, 40), random_rows(12, 6, 2)
        lists = lists_of(edges, 12, 12)
        weights, key, ids = random_rows(2, 3, 3), torch.tensor([5, 6]), torch.arange(12)
        pair_of = torch.randn(12, 6, generator=torch.Generator().manual_seed(1))

        def loss(rows):
            with torch.no_grad():
                scores = ops.score_heads(rows, weights)
            return (ops.attend_over_edges(rows, weights, weights, scores, scores, lists.indptr, lists.indices,
                                          *lists.transposed()[:2], 0.2, True, 0.5, key, ids)[0] * pair_of).sum()

        (grad,) = torch.autograd.grad(loss(x), x)
        step = torch.randn(12, 6, generator=torch.Generator().manual_seed(2)) * 1e-3
        with torch.no_grad():
            difference = loss(x + step) - loss(x - step)
        torch.testing.assert_close(difference, 2 * (grad * step).sum(), rtol=2e-2, atol=1e-5)


class Operators(unittest.TestCase):
    def test_have_the_gradients_of_finite_differences(self):
        for device in DEVICES:
            lists = lists_of(random_edges(9, 9, 30, device=device), 9, 9)
            back = lists.transposed()
            scale = [random_rows(n, 1, seed, device).detach().squeeze(1) for seed, n in ((1, 30), (2, 9), (3, 9), (4, 5))]

            def sums(x):
                return ops.sum_over_edges(x, lists.indptr, lists.indices, *scale, *back[:2], scale[0][back[2]])

            def scores(rows, weights):
                return ops.score_heads(rows, weights)

            with self.subTest(device=device), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # f32 is what the kernels compute in
                options = {"eps": 1e-2, "atol": 5e-3, "rtol": 5e-3, "nondet_tol": 0.0}
                self.assertTrue(torch.autograd.gradcheck(sums, random_rows(9, 3, 5, device), **options))
                self.assertTrue(torch.autograd.gradgradcheck(sums, random_rows(9, 3, 5, device), **options))
                inputs = random_rows(4, 6, 6, device), random_rows(2, 3, 7, device)
                for row_scale in (None, scale[1]):

                    def joined(x, row_scale=row_scale):
                        return ops.join_sums(x, lists.indptr, lists.indices, row_scale, *back[:2])

                    self.assertTrue(torch.autograd.gradcheck(joined, random_rows(9, 3, 5, device), **options))
                    self.assertTrue(torch.autograd.gradgradcheck(joined, random_rows(9, 3, 5, device), **options))
                layer = pair(lambda nn: nn.SAGEConv(3, 4), device)[1]
                self.assertTrue(torch.autograd.gradgradcheck(lambda x: layer(x, lists), random_rows(9, 3, 5, device), **options))
                self.assertTrue(torch.autograd.gradcheck(scores, inputs, **options))

    def test_are_what_torch_expects_of_operators(self):
        for device in DEVICES:
            with self.subTest(device=device):
                edges, x = random_edges(20, 20, 60, device=device), random_rows(20, 6, 1, device)
                lists, none = lists_of(edges, 20, 20), (None,) * 4
                back = lists.transposed()[:2]
                check = torch.library.opcheck
                check(ops.sort_edges, (edges, 20, 20))
                check(ops.transpose_edges, (lists.indptr, lists.indices, 20))
                check(ops.sum_over_edges, (x, lists.indptr, lists.indices, *none, *back, None))
                check(ops.inverse_counts, (lists.indptr,))
                check(ops.join_sums, (x, lists.indptr, lists.indices, None, *back))
                check(ops.join_sums_grad, (random_rows(20, 12, 1, device), lists.indptr, lists.indices, None, *back))
                check(ops.max_over_edges, (x, lists.indptr, lists.indices, *back))
                weights = random_rows(2, 3, 2, device)
                check(ops.score_heads, (x, weights))
                scores = ops.score_heads(x, weights).detach()
                over = (x, weights, weights, scores, scores, lists.indptr, lists.indices, *back)
                check(ops.attend_over_edges, (*over, 0.2, True, 0.0, None, None))

    def test_need_transposed_lists_for_gradients(self):
        x, lists = random_rows(5, 2, 1), lists_of(random_edges(5, 5, 9), 5, 5)
        out = ops.sum_over_edges(x, lists.indptr, lists.indices, *(None,) * 7)
        joined = ops.join_sums(x, lists.indptr, lists.indices, *(None,) * 3)
        for found in (out, joined):
            with self.assertRaisesRegex(strata.InputError, "transposed lists"):
                found.sum().backward()

    def test_take_relu_of_their_input(self):
        """As one node of autograd, and as the operators that another torch and torch.compile get."""
        makes = {
            "mean": lambda **more: ours.SAGEConv(COLUMNS, OUT, **more),
            "sum": lambda **more: ours.SAGEConv(COLUMNS, OUT, aggr="sum", bias=False, **more),
            "max": lambda **more: ours.SAGEConv(COLUMNS, OUT, aggr="max", **more),
            "without root": lambda **more: ours.SAGEConv(COLUMNS, OUT, root_weight=False, **more),
        }
        for device in DEVICES:
            edges, x = random_edges(40, 40, 200, device=device), random_rows(40, COLUMNS, 1, device)
            for name, make in makes.items():
                plain, fused = make().to(device), make(relu_input=True).to(device)
                fused.load_state_dict(plain.state_dict())
                expected = result_and_gradients(lambda layer: layer(x.relu(), edges), plain, [x])
                for operator in (ops.joined_layer, lambda: None):
                    with self.subTest(device=device, aggr=name), unittest.mock.patch.object(ops, "joined_layer", operator):
                        found = result_and_gradients(lambda layer: layer(x, edges), fused, [x])
                        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)

    def test_leave_linear_maps_with_hooks_whole(self):
        for device in DEVICES:
            edges, x = random_edges(20, 20, 60, device=device), random_rows(20, COLUMNS, 1, device)
            _, mine = pair(LAYERS["SAGE mean"], device)
            expected, seen = mine(x, edges), []
            mine.lin_r.register_forward_hook(lambda *given: seen.append(given[1][0].shape))
            torch.testing.assert_close(mine(x, edges), expected, rtol=1e-5, atol=1e-5)
            self.assertEqual(seen, [x.shape])

    def test_refuse_types_that_they_do_not_know(self):
        for device in DEVICES:
            lists = lists_of(random_edges(20, 20, 60, device=device), 20, 20)
            back = lists.transposed()[:2]
            weights, scores = random_rows(2, 3, 2, device), random_rows(20, 2, 3, device).detach()
            calls = {
                "sum_over_edges": lambda x: ops.sum_over_edges(x, lists.indptr, lists.indices, *(None,) * 7),
                "join_sums": lambda x: ops.join_sums(x, lists.indptr, lists.indices, *(None,) * 3),
                "join_sums_grad": lambda x: ops.join_sums_grad(x, lists.indptr, lists.indices, None, *back),
                "max_over_edges": lambda x: ops.max_over_edges(x, lists.indptr, lists.indices, *back),
                "score_heads": lambda x: ops.score_heads(x, weights),
                "attend_over_edges": lambda x: ops.attend_over_edges(
                    x, weights, weights, scores, scores, lists.indptr, lists.indices, *back, 0.2, True, 0.0, None, None
                ),
                "joined_layer": lambda x: ops.joined_layer()(
                    x, *x.new_ones(2, 4, 6), None, lists.indptr, lists.indices, *back, True, False
                ),
            }
            for name, call in calls.items():
                call(random_rows(20, 6, 1, device))
                for dtype in (torch.float16, torch.float64, torch.int32, torch.bool, torch.complex64):
                    with self.subTest(device=device, operator=name, dtype=dtype):
                        with self.assertRaisesRegex((strata.InputError, TypeError, RuntimeError), "float32|incompatible"):
                            call(random_rows(20, 6, 1, device).detach().to(dtype))

    def test_compile_without_a_graph_break(self):
        for device in DEVICES:
            for name in ("SAGE mean", "SAGE max", "GCN", "GAT", "GIN"):
                with self.subTest(device=device, layer=name):
                    torch._dynamo.reset()
                    _, mine = pair(LAYERS[name], device)
                    compiled = torch.compile(mine, fullgraph=True, backend="aot_eager")
                    edges, x = random_edges(60, 60, 300, device=device), random_rows(60, COLUMNS, 2, device)
                    expected = result_and_gradients(lambda layer: layer(x, edges), mine, [x])
                    found = result_and_gradients(lambda _: compiled(x, edges), mine, [x])
                    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


class Lists(unittest.TestCase):
    def test_are_made_once_per_batch_and_again_when_it_changes(self):
        edges = random_edges(20, 20, 60)
        lists = lists_of(edges, 20, 20)
        self.assertIs(lists_of(edges, 20, 20), lists)
        self.assertIsNot(lists_of(edges, 21, 20), lists)
        lists = lists_of(edges, 20, 20)
        edges[0, 0] = 19
        self.assertIsNot(lists_of(edges, 20, 20), lists)
        block = block_of(edges, 20, 20)
        self.assertIs(lists_of(block, 20, 20), lists_of(block, 20, 20))

    def test_go_with_their_batch(self):
        edges = random_edges(20, 20, 60)
        gone = weakref.ref(lists_of(edges, 20, 20))
        layer = ours.SAGEConv(COLUMNS, OUT)
        layer(random_rows(20, COLUMNS, 1), edges).sum().backward()
        del edges
        gc.collect()
        self.assertIsNone(gone())

    def test_serve_layers_by_themselves(self):
        edges, x = random_edges(20, 20, 60), random_rows(20, COLUMNS, 1)
        layer, lists = ours.GATConv(COLUMNS, OUT), ours.EdgeLists.of_edge_index(edges, 20, 20)
        self.assertTrue(torch.equal(layer(x, lists), layer(x, edges)))

    def test_work_in_inference_mode(self):
        layer, x = ours.SAGEConv(COLUMNS, OUT), random_rows(20, COLUMNS, 1)
        with torch.inference_mode():
            edges = random_edges(20, 20, 60)
            out = layer(x, edges)
        self.assertTrue(torch.equal(out.clone(), layer(x, edges.clone()).detach()))

    def test_serve_training_after_evaluation(self):
        edges, x = random_edges(20, 20, 60), random_rows(20, COLUMNS, 1)
        for name in ("SAGE mean", "GCN", "GAT"):
            with self.subTest(layer=name):
                layer = LAYERS[name](ours)
                with torch.inference_mode():
                    expected = layer(x.detach(), edges)
                out = layer(x, edges)
                out.sum().backward()
                self.assertTrue(torch.equal(out.detach(), expected.clone()))


class Refusals(unittest.TestCase):
    def refused(self, message, call):
        with self.assertRaisesRegex(strata.InputError, message):
            call()

    def test_name_the_argument(self):
        self.refused(r"SAGEConv\(project=True\)", lambda: ours.SAGEConv(4, 4, project=True))
        self.refused(r"SAGEConv\(aggr='lstm'\)", lambda: ours.SAGEConv(4, 4, aggr="lstm"))
        self.refused(r"SAGEConv\(aggr=\['mean', 'max'\]\)", lambda: ours.SAGEConv(4, 4, aggr=["mean", "max"]))
        self.refused(r"SAGEConv\(in_channels=-1\)", lambda: ours.SAGEConv(-1, 4))
        self.refused(r"GCNConv\(cached=True\)", lambda: ours.GCNConv(4, 4, cached=True))
        self.refused(r"GCNConv\(add_self_loops=True\)", lambda: ours.GCNConv(4, 4, add_self_loops=True, normalize=False))
        self.refused(r"GCNConv\(in_channels=\(4, 4\)\)", lambda: ours.GCNConv((4, 4), 4))
        self.refused(r"GCNConv\(flow='target_to_source'\)", lambda: ours.GCNConv(4, 4, flow="target_to_source"))
        self.refused(r"GATConv\(edge_dim=3\)", lambda: ours.GATConv(4, 4, edge_dim=3))
        self.refused(r"GATConv\(fill_value=1.0\)", lambda: ours.GATConv(4, 4, fill_value=1.0))
        self.refused(r"GATConv\(dropout=1\)", lambda: ours.GATConv(4, 4, dropout=1))
        self.refused(r"GATConv\(heads=0\)", lambda: ours.GATConv(4, 4, heads=0))
        self.refused(r"GINConv\(aggr='max'\)", lambda: ours.GINConv(mlp(), aggr="max"))
        self.refused(r"GINConv\(nn=None\)", lambda: ours.GINConv(None))
        with self.assertRaisesRegex(TypeError, "'rot_weight'"):
            ours.SAGEConv(4, 4, rot_weight=True)

    def test_say_what_is_wrong_with_inputs(self):
        edges, x = random_edges(6, 6, 10), random_rows(6, 4, 1)
        sage, gcn, gat = ours.SAGEConv(4, 4), ours.GCNConv(4, 4), ours.GATConv(4, 4)
        self.refused("x is torch.float64", lambda: sage(x.double(), edges))
        self.refused(r"x is a tensor of shape \[6\]", lambda: sage(x[:, 0], edges))
        for layer in (sage, gcn, gat):
            self.refused("x has 3 columns, the layer takes 4", lambda layer=layer: layer(x[:, :3], edges))
        self.refused("x_dst has 3 columns, the layer takes 4", lambda: sage((x, x[:, :3]), edges))
        self.refused(r"edge_index is torch.int32 of shape \[2, 10\]", lambda: sage(x, edges.int()))
        self.refused("edge_index is a torch.sparse_coo tensor", lambda: sage(x, torch.eye(6).to_sparse()))
        self.refused("edge_index is str", lambda: sage(x, "edges"))
        self.refused("of 5 sources and 5 destinations", lambda: sage(x[:5], torch.tensor([[0], [5]])))
        self.refused("x has 5 sources and 4 destinations, its edges 6 and 4", lambda: sage(x[:5], block_of(edges % 4, 6, 4)))
        self.refused("x has 3 rows, its edges 4 destinations", lambda: sage(x[:3], block_of(edges % 4, 6, 4)))
        self.refused("size is", lambda: sage(x, edges, size=(7, 6)))
        self.refused("x is a pair", lambda: gcn((x, x), edges))
        self.refused("edge_weight requires a gradient", lambda: gcn(x, edges, torch.ones(10, requires_grad=True)))
        self.refused(r"of shape \[9\] for 10 edges", lambda: gcn(x, edges, torch.ones(9)))
        self.refused("edge_attr", lambda: gat(x, edges, torch.ones(10, 3)))
        self.refused("return_attention_weights", lambda: gat(x, edges, return_attention_weights=True))


class Batches(Compared):
    """Of Strata's own loaders."""

    @classmethod
    def setUpClass(cls):
        edges, x = random_edges(400, 400, 3000), random_rows(400, COLUMNS, 2).detach()
        cls.graph = strata.from_tensors(edges, x, torch.zeros(400, dtype=torch.int64), train=torch.arange(100))

    @classmethod
    def tearDownClass(cls):
        cls.graph.close()

    def test_go_into_the_layers(self):
        loader = strata.NeighborLoader(self.graph, [5, 5], "train", batch_size=32)
        for batch in loader:
            layers = pair(LAYERS["SAGE mean"], batch.x.device)
            self.check(lambda layer: layer(batch.x, batch.edge_index), lambda layer: layer(batch.x, batch.edge_index), layers, [])

    def test_of_blocks_go_into_the_layers(self):
        loader = strata.NodeLoader(self.graph, "train", fanouts=[5, 5], batch_size=32, features=True)
        for name in ("SAGE mean", "GAT"):
            for (_, _, blocks), x, _ in loader:
                block = blocks[0]
                layers = pair(LAYERS[name], x.device)
                self.check(
                    lambda layer: layer((x, x[: block.num_dst]), block.edge_index), lambda layer: layer(x, block), layers, []
                )


    def test_of_blocks_are_freed_with_what_layers_made_of_them(self):
        loader = strata.NodeLoader(self.graph, "train", fanouts=[5, 5], batch_size=8, features=True)
        layers = [LAYERS[name](ours) for name in ("SAGE mean", "GCN", "GAT", "GIN")]
        for (_, _, blocks), x, _ in loader:
            x = x.requires_grad_()
            for layer in layers:
                layer.to(x.device)(x, blocks[0]).sum().backward()
        self.assertGreater(len(loader), 10)
        self.assertLess(loader._core.batches_made, 4)

    def test_of_blocks_bring_their_transposed_lists(self):
        for (_, _, blocks), x, _ in strata.NodeLoader(self.graph, "train", fanouts=[5, 5], batch_size=32, features=True):
            self.assertIsNone(blocks[0].transposed)
            block = blocks[1]
            lists = strata.nn.EdgeLists(block.num_src, block.num_dst, block.indptr, block.indices)
            for brought, made in zip(block.transposed, lists.transposed()):
                self.assertTrue(torch.equal(brought, made))
            for name in ("SAGE mean", "SAGE max", "GCN", "GAT"):
                layer = LAYERS[name](ours).to(x.device)
                grads = []
                for edges in (block, lists):
                    h = x[: block.num_src].clone().requires_grad_()
                    layer(h, edges).square().sum().backward()
                    grads.append(h.grad)
                self.assertTrue(torch.equal(*grads), name)
        for _, _, blocks in strata.NodeLoader(self.graph, "train", fanouts=[5, 5], batch_size=32, transposes=False):
            self.assertEqual([block.transposed for block in blocks], [None, None])


class Importing(unittest.TestCase):
    def test_strata_imports_no_torch(self):
        code = "import sys, strata; assert 'torch' not in sys.modules; import strata.nn; assert 'torch' in sys.modules"
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    unittest.main()
