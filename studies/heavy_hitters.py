"""Recall and precision of heavy hitters on real data: ``python -m studies.heavy_hitters [--data DIR]``.

The trie with its ways of composition, the single round, and the optimal histogram of `dptally.publish`, all at the same
total budget. Every occurrence is a unit. Draws are seeded: nothing here is private.

Recall at n is the share of the n most frequent values that were reported at all. Precision at n is the share of the n
values with the largest estimates (or of all, if fewer were reported) that are among the n most frequent. Both are means
over runs. Ties in the truth are broken by the order of values.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dptally.heavy_hitters import publish_heavy_hitters
from dptally.laws.prefix_plans import plan_trie
from dptally.laws.round_parameters import COMPOSITIONS
from dptally.publishing import publish
from dptally.randomness import SeededBits
from dptally.releases.table_release import TableRelease

__all__ = ["Score", "Task", "compare", "interaction_targets", "main", "score", "shakespeare_words"]

Value = str | bytes | int
_SIZES = (100, 1000)


@dataclass(frozen=True)
class Task:
    """Data, and the levels it is looked at with."""

    name: str
    counts: Mapping[Value, int]
    domain: str
    width: int | None
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Score:
    """Recall and precision among the n most frequent values."""

    recall: float
    precision: float


def shakespeare_words(data: Path) -> Task:
    """Words of Shakespeare, each occurrence a unit; ten levels of characters."""
    lines = pl.read_parquet(data / "shakespeare_lines.parquet", columns=["text"])
    words = lines.select(word=pl.col("text").str.to_lowercase().str.extract_all(r"[a-z]+(?:'[a-z]+)*")).explode("word")
    return Task("Shakespeare words", _counts(words.drop_nulls(), "word"), "characters", None, tuple(range(1, 11)))


def interaction_targets(data: Path) -> Task:
    """Who is answered or commented on at MathOverflow, each interaction a unit; five levels of four bits."""
    rows = pl.read_parquet(data / "mathoverflow_interactions.parquet", columns=["target_user"]).drop_nulls()
    largest = rows.get_column("target_user").cast(pl.Int64).max()
    width = max(20, int(str(largest)).bit_length())
    lengths = tuple(width * level // 5 for level in range(1, 6))
    return Task("MathOverflow ids", _counts(rows.cast(pl.Int64), "target_user"), "bits", width, lengths)


def _counts(rows: pl.DataFrame, column: str) -> dict[Value, int]:
    found = rows.group_by(column).len("units").sort("units", column, descending=[True, False])
    return dict(zip(found.get_column(column).to_list(), found.get_column("units").to_list(), strict=True))


def score(truth: Mapping[Value, int], found: Mapping[Value, int], n: int) -> Score:
    """Recall and precision at n; `truth` has the most frequent values first."""
    wanted = set(list(truth)[:n])
    top = sorted(found, key=lambda value: (-found[value], str(value)))[:n]
    return Score(len(wanted & set(found)) / len(wanted), len(wanted & set(top)) / len(top) if top else 1.0)


def compare(task: Task, epsilon: str, delta: str, *, runs: int = 5) -> pl.DataFrame:
    """Mean recall and precision of all ways, at the same total budget."""

    def histogram(seed: int) -> dict[Value, int]:
        types = {"key": "int64"} if task.domain == "bits" else None
        release = publish(task.counts, epsilon=epsilon, delta=delta, types=types, randomness=SeededBits(seed))
        assert isinstance(release, TableRelease)  # noqa: S101 - for the type checker
        table = release.table()
        return dict(zip(table.get_column("key").to_list(), table.get_column("estimate").to_list(), strict=True))

    def tree(**options: object) -> Callable[[int], dict[Value, int]]:
        def draw(seed: int) -> dict[Value, int]:
            return publish_heavy_hitters(
                task.counts,
                epsilon=epsilon,
                delta=delta,
                domain=task.domain,
                width=task.width,
                levels=task.lengths,
                randomness=SeededBits(seed),
                **options,  # type: ignore[arg-type]
            ).frequencies()

        return draw

    ways: list[tuple[str, str, Callable[[int], dict[Value, int]]]] = []
    for composition in COMPOSITIONS:
        law = plan_trie(
            epsilon,
            delta,
            levels=task.lengths,
            domain=task.domain,
            width=task.width,
            composition=composition,  # type: ignore[arg-type]
        ).law
        reach = f"{law.threshold / float(law.rate):.0f}"
        ways.append((f"{len(task.lengths)} rounds, {composition}", reach, tree(composition=composition)))
    law = plan_trie(epsilon, delta, levels=1, single_round=True).law
    ways.append(("single round", f"{law.threshold / float(law.rate):.0f}", tree(single_round=True)))
    ways.append(("optimal histogram", "", histogram))
    rows = []
    for way, reach, draw in ways:
        found = [draw(seed) for seed in range(runs)]
        facts: dict[str, object] = {
            "data": task.name,
            "epsilon": epsilon,
            "way": way,
            "threshold / rate": reach,
            "values": round(sum(map(len, found)) / runs),
        }
        for n in _SIZES:
            scores = [score(task.counts, one, n) for one in found]
            facts[f"recall {n}"] = sum(one.recall for one in scores) / runs
            facts[f"precision {n}"] = sum(one.precision for one in scores) / runs
        rows.append(facts)
    return pl.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the comparison as a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m studies.heavy_hitters", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), metavar="DIR")
    parser.add_argument("--epsilon", nargs="+", default=["1", "0.1"], metavar="E")
    parser.add_argument("--delta", default="1e-6", metavar="D")
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    wanted = parser.parse_args(arguments)
    try:
        tasks = [shakespeare_words(wanted.data), interaction_targets(wanted.data)]
    except FileNotFoundError:
        sys.stderr.write(f"the data is not in {wanted.data}.\n")
        return 1
    started = time.monotonic()
    tables = [compare(task, e, wanted.delta, runs=wanted.runs) for task in tasks for e in wanted.epsilon]
    whole = pl.concat(tables)
    sys.stdout.write("| " + " | ".join(whole.columns) + " |\n" + "| --- " * whole.width + "|\n")
    for row in whole.iter_rows():
        shown = (f"{part:.3f}" if isinstance(part, float) else str(part) for part in row)
        sys.stdout.write("| " + " | ".join(shown) + " |\n")
    sys.stderr.write(f"{time.monotonic() - started:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
