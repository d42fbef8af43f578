# SPDX-License-Identifier: Apache-2.0
"""Decoders of strata-train are those of strata.nn: a run's weights give the same filtered ranks."""

import pathlib
import tempfile
import unittest

import torch

import strata
from strata import metrics, nn

ENTITIES, RELATIONS, COLS = 60, 3, 8
DECODERS = {
    "complex": lambda: nn.ComplEx(RELATIONS, COLS // 2),
    "rotate:3:l1": lambda: nn.RotatE(RELATIONS, COLS // 2, 3.0, "l1"),
    "transe:2": lambda: nn.TransE(RELATIONS, COLS, 2),
    "mlp": lambda: nn.MLPDecoder(COLS, 16, num_relations=RELATIONS),
}


class TrainLinks(unittest.TestCase):
    def test_decoders_rank_as_those_of_strata_nn(self):
        random = torch.Generator().manual_seed(4)
        keys = torch.randperm(ENTITIES * ENTITIES * RELATIONS, generator=random)[:1500]
        head, relation, tail = keys // (ENTITIES * RELATIONS), keys // ENTITIES % RELATIONS, keys % ENTITIES
        is_edge = head != tail
        triples = torch.stack([head, tail, relation], dim=1)[is_edge]
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            for name, rows in zip(("test", "valid", "train"), triples.tensor_split([100, 150])):
                lines = [f"{' '.join(map(str, row))}\n" for row in rows.tolist()]
                (folder / f"{name}2id.txt").write_text(f"{len(lines)}\n{''.join(lines)}")
            (folder / "entity2id.txt").write_text("".join([f"{ENTITIES}\n", *(f"e{v} {v}\n" for v in range(ENTITIES))]))
            strata.partition(f"triples:{folder}", parts=1, output=folder / "parts")
            head, tail, relation = triples.unbind(1)
            known = metrics.KnownEdges(head, relation, tail)
            for name, make in DECODERS.items():
                run = strata.train(
                    folder / "parts", task="link", model="none", learned_rows=COLS, hidden=16, decoder=name, negative_ends="both",
                    eval_negatives="all", epochs=1, loss="margin:0.5", output=folder / name.replace(":", "_"), device="cpu",
                    progress="off", log_level="warn",
                )  # fmt: skip
                decoder = make()
                decoder.load_state_dict(
                    {key.removeprefix("decoder."): value for key, value in run.weights.items() if key.startswith("decoder.")}
                )
                rows = strata.predict(run)
                ranks = [
                    metrics.link_ranks(decoder, rows, head[:100], relation[:100], tail[:100], side=side, known=known)
                    for side in ("tail", "head")
                ]
                self.assertAlmostEqual(float((1 / torch.cat(ranks)).mean()), run.test.mrr, places=5, msg=name)


if __name__ == "__main__":
    unittest.main()
