# SPDX-License-Identifier: Apache-2.0
"""Sections about what a run learned: loss, scores, classes."""

from __future__ import annotations

import statistics

from . import words
from .charts import Axes, Series, lines, matrix
from .page import Cell, Chart, Section, Table
from .run import Record, Run, measured

METRICS = ("accuracy", "macro_f1", "roc_auc")
MOST_POINTS = 2000  # of a line of steps; more would make the page slow and the line no clearer
OVERFIT_GAP = 0.1  # between the scores of training and of validation nodes
RISEN = 1.05  # a loss this much above its lowest
MOST_LAST = 12  # epochs that have to be above it
FLAT_SHARE = 0.01  # of the whole fall, in the last quarter of the epochs


def numbers_of(records: list[Record], name: str) -> list[float | None]:
    return [record.get(name) for record in records]


def _rises(losses: list[float]) -> bool:
    """Whether all of the last losses lie above the lowest that as many in a row had on average: noise does not count."""
    last = min(max(1, len(losses) // 4), MOST_LAST)
    lowest = min(statistics.fmean(losses[i : i + last]) for i in range(len(losses) - last + 1))
    return min(losses[-last:]) > max(lowest * RISEN, lowest + 1e-3)


def halves(values: list[float]) -> tuple[float, float]:
    """The means of the first and of the second half; of less than two values, the same."""
    middle = len(values) // 2
    return (statistics.fmean(values[:middle]), statistics.fmean(values[middle:])) if middle else (0.0, 0.0)


def _loss_seen(run: Run) -> tuple[str, str]:
    """The observation about the losses, and what to try."""
    losses = [(int(e["epoch"]), float(e["loss"])) for e in run.epochs if e.get("loss") is not None]
    if not losses:
        return "No epoch has a loss: it was not a finite number.", "Lower --lr, or clip the gradient (--clip-grad 1)."
    (first, begin), (last, end) = losses[0], losses[-1]
    seen = f"The training loss was {words.number(begin)} in epoch {first:,}"
    if len(losses) == 1:
        return f"{seen}, the only one so far.", "A curve needs more than one epoch: --epochs."
    lowest_epoch, lowest = min(losses, key=lambda pair: pair[1])
    values = [value for _, value in losses]
    verb = "fell" if end < begin else "rose" if end > begin else "stayed"
    seen += f" and {verb} to {words.number(end)} in epoch {last:,}"
    if _rises(values):
        return f"{seen}, after {words.number(lowest)} in epoch {lowest_epoch:,}.", "It rises: lower --lr, or --lr-schedule cosine."
    earlier, later = halves(values[-(len(values) // 4) :])
    if len(losses) >= 8 and earlier - later < FLAT_SHARE * (begin - end):
        return f"{seen}; it hardly fell in the last quarter of the epochs.", "End earlier with --patience, or widen the model (--hidden)."
    return f"{seen}.", ""


def thinned(steps: list[Record]) -> list[tuple[float, float]]:
    """(epoch as a fraction, loss) of steps, as means over neighbors where there are too many."""
    most: dict[int, int] = {}
    for step in steps:
        most[step["epoch"]] = max(most.get(step["epoch"], 1), int(step.get("step", 1)))
    points = [(s["epoch"] - 1 + s.get("step", 1) / most[s["epoch"]], s["loss"]) for s in steps if s.get("loss") is not None]
    per_point = -(-len(points) // MOST_POINTS)
    if per_point <= 1:
        return points
    groups = [points[i : i + per_point] for i in range(0, len(points), per_point)]
    return [(group[-1][0], sum(loss for _, loss in group) / len(group)) for group in groups]


def loss(run: Run) -> Section:
    if not run.epochs:
        return Section("Loss", missing="No epoch has ended yet.")
    seen, advice = _loss_seen(run)
    epochs = [int(e["epoch"]) for e in run.epochs]
    evaluated = [e["epoch"] for e in run.evaluations]
    series = [Series("training", epochs, numbers_of(run.epochs, "loss"))]
    for split in ("valid", "test"):
        values = [measured(e, split).get("loss") for e in run.evaluations]
        if any(value is not None for value in values):
            series.append(Series("validation" if split == "valid" else split, evaluated, values))
    charts = [Chart(lines(series, Axes("epoch", "loss", whole_x=True)), f"Loss per epoch. {seen}")]
    steps = thinned(run.of("step"))
    tables = [epoch_table(run)]
    if steps:
        within = Series("training, by step", [x for x, _ in steps], [y for _, y in steps])
        charts.append(Chart(lines([within], Axes("epochs", "loss by step")), "Training loss by step, within epochs."))
        rows = [[Cell(f"{x:,.3f}", x), Cell(words.number(y), y)] for x, y in steps]
        tables.append(Table("Training loss by step", ["epochs", "loss"], rows))
    return Section("Loss", seen, advice, charts=charts, tables=tables)


def epoch_table(run: Run) -> Table:
    scores = {e["epoch"]: e for e in run.evaluations}
    best = run.best.get("epoch")
    rows = []
    for epoch in run.epochs:
        number = int(epoch["epoch"])
        evaluation = scores.get(number, {})
        valid, test = run.score(evaluation, "valid"), run.score(evaluation, "test")
        rows.append(
            [
                Cell(f"{number:,} (best)" if number == best else f"{number:,}", number, mark=number == best),
                Cell(words.number(epoch.get("loss")), _key(epoch.get("loss"))),
                Cell(words.number(epoch.get("train_accuracy")), _key(epoch.get("train_accuracy"))),
                Cell(words.number(valid), _key(valid)),
                Cell(words.number(test), _key(test)),
                *(Cell(words.number(value), _key(value)) for split in ("valid", "test") for value in [measured(evaluation, split).get("loss")]),
                Cell(words.seconds(epoch.get("seconds")), _key(epoch.get("seconds"))),
                Cell(words.seconds(run.elapsed[number]), run.elapsed[number]),
                Cell(words.count(epoch.get("seeds_per_second")), _key(epoch.get("seeds_per_second"))),
            ]
        )
    metric = words.metric(run.metric)
    header = ["epoch", "loss", "train accuracy", f"validation {metric}", f"test {metric}", "validation loss", "test loss", "time", "time so far", "seeds/s"]
    return Table(f"All {len(rows):,} epochs" if len(rows) > 1 else "The epoch in numbers", header, rows)


def _key(value: float | None) -> float | str:
    return "" if value is None else float(value)


def _scores_seen(run: Run) -> tuple[str, str]:
    best = run.best
    valid, test = run.score(best, "valid"), run.score(best, "test")
    metric = words.metric(run.metric)
    if valid is None and test is None:
        return f"There is no {metric} of this graph.", ""
    found = [f"{words.number(value)} on {name} nodes" for value, name in ((valid, "validation"), (test, "test")) if value is not None]
    which = "The best epoch is" if valid is not None else "Without validation nodes, the last evaluation counts: epoch"
    seen = f"{which} {best['epoch']:,}: {metric} {', '.join(found)}."
    epoch = next((e for e in run.epochs if e["epoch"] == best["epoch"]), {})
    train = epoch.get("train_accuracy")
    last = run.evaluations[-1]["epoch"]
    if run.metric == "accuracy" and train is not None and valid is not None and train - valid > OVERFIT_GAP:
        seen += f" Training nodes reach {words.number(train)}."
        return seen, "The model learns its training nodes by heart: more --dropout or --weight-decay, fewer --epochs, or --patience."
    if valid is not None and best["epoch"] == last and len(run.evaluations) > 2:
        return seen, "The last epoch is the best one: more --epochs may reach more."
    return seen, ""


def scores(run: Run) -> Section:
    if not run.evaluations:
        return Section("Scores", missing="Nothing was evaluated yet; --eval-every sets how often that happens.")
    seen, advice = _scores_seen(run)
    evaluated = [e["epoch"] for e in run.evaluations]
    series = [
        Series("training (with dropout)", [e["epoch"] for e in run.epochs], numbers_of(run.epochs, "train_accuracy")),
        Series("validation", evaluated, [run.score(e, "valid") for e in run.evaluations]),
        Series("test", evaluated, [run.score(e, "test") for e in run.evaluations]),
    ]
    series = [s for s in series if any(value is not None for value in s.y)]
    if run.metric != "accuracy":
        series = [s for s in series if s.name in ("validation", "test")]
    value = run.score(run.best, "valid")
    marked = Series("best epoch", [run.best["epoch"]], [value]) if value is not None else None
    axes = Axes("epoch", words.metric(run.metric), whole_x=True)
    charts = [Chart(lines(series, axes, marked), f"Scores per epoch. {seen}")]
    return Section("Scores", seen, advice, charts=charts, tables=[_best_table(run)])


def _best_table(run: Run) -> Table:
    rows = []
    for split, name in (("valid", "validation"), ("test", "test")):
        values = measured(run.best, split)
        if not values:
            continue
        row = [Cell(name), Cell(words.count(values.get("nodes")), _key(values.get("nodes")))]
        row += [Cell(words.number(values.get(m)), _key(values.get(m))) for m in (*METRICS, "loss")]
        rows.append(row)
    return Table(f"Scores of epoch {run.best['epoch']:,}", ["split", "nodes", *(words.metric(m) for m in METRICS), "loss"], rows, is_open=True)


def f1(labelled: int, predicted: int, correct: int) -> float:
    return 2 * correct / (labelled + predicted) if labelled + predicted else 0.0


def classes(run: Run) -> Section:
    record = run.last("classes")
    if not record:
        return Section(
            "Classes",
            missing="How test nodes of each class were predicted is not recorded: runs of Strata 0.2 record it after an evaluation, "
            "for graphs with up to 1,000 classes.",
        )
    triples = list(zip(record["labelled"], record["predicted"], record["correct"]))
    occurring = [(f1(*t), c) for c, t in enumerate(triples) if t[0] > 0]
    if not occurring:
        return Section("Classes", missing="No test node has a label.")
    worst_f1, worst = min(occurring)
    seen = f"Of {words.plural(len(occurring), 'class')[:-1] + 'es' if len(occurring) != 1 else '1 class'} among the test nodes, "
    seen += f"class {worst} is the hardest: {words.count(triples[worst][2])} of its {words.count(triples[worst][0])} nodes are found "
    seen += f"(F1 {words.number(worst_f1)})."
    never = [c for c, t in enumerate(triples) if t[0] > 0 and t[1] == 0]
    advice = ""
    if never:
        advice = f"Never predicted: class {words.listed([str(c) for c in never[:8]])}. --class-weights balanced weighs rare classes more."
    charts = []
    confusion = record.get("confusion")
    if confusion:
        charts.append(_confusion_chart(confusion, seen))
    return Section("Classes", seen, advice, charts=charts, tables=_class_tables(triples, confusion))


def _confusion_chart(confusion: list[list[int]], seen: str) -> Chart:
    names = [str(c) for c in range(len(confusion))]
    shares = [[n / sum(row) if sum(row) else 0.0 for n in row] for row in confusion]
    texts = [[words.count(n) for n in row] for row in confusion]
    figure = matrix(shares, names, texts, Axes("predicted class", "label"), "label %{y}, predicted %{x}", "share")
    return Chart(figure, f"Test nodes by label and prediction, the darker the larger the share of the label's nodes. {seen}")


def _class_tables(triples: list[tuple[int, int, int]], confusion: list[list[int]] | None) -> list[Table]:
    rows: list[list[Cell]] = []
    for c, (labelled, predicted, correct) in enumerate(triples):
        precision = correct / predicted if predicted else None
        recall = correct / labelled if labelled else None
        cells = [Cell(str(c), c)] + [Cell(words.count(n), n) for n in (labelled, predicted, correct)]
        cells += [Cell(words.number(v), _key(v)) for v in (precision, recall, f1(labelled, predicted, correct))]
        rows.append(cells)
    tables = [Table("Scores per class, test nodes", ["class", "labelled", "predicted", "correct", "precision", "recall", "F1"], rows)]
    if confusion:
        header = ["label \\ predicted", *(str(c) for c in range(len(confusion)))]
        matrix_rows = [
            [Cell(str(c), c)] + [Cell(words.count(n), n, mark=c == p and n > 0) for p, n in enumerate(row)] for c, row in enumerate(confusion)
        ]
        tables.append(Table("Confusion matrix, test nodes", header, matrix_rows))
    return tables
