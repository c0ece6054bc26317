"""``--explain`` on every command: what would be done, with which guarantee and at what cost, without doing it.

Nothing is read but the command line, and nothing is written. A command says it by a function of its arguments that
returns an `Explanation`, given to `dptally.cli.parser.add_command`.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dptally.cli.options import ledger_part
from dptally.cli.printing import print_json, say
from dptally.errors import InvalidParameter
from dptally.exact import as_delta, as_epsilon, as_fraction
from dptally.labels import quoted, without_credentials

if TYPE_CHECKING:
    from dptally.laws.base import Reporting

COUNTING = (
    "Time grows with the rows, about a second for ten million where rows are units and several where a column is the "
    "unit; memory grows with the distinct keys, and the counting engine goes to disk beyond its limit."
)
"""What it takes to count rows."""


@dataclass(frozen=True)
class Explanation:
    """What a command would do, in sentences; what it reads and writes, each with what it is."""

    does: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    guarantee: str = ""  # empty where nothing private is touched
    cost: str = "No privacy is spent: what is read is public already."
    resources: str = "Less than a second and a few hundred megabytes at most."
    expect: str = ""  # what the result would be like


def explain(arguments: argparse.Namespace) -> None:
    """Print the explanation of a command."""
    command = arguments.parser.prog.partition(" ")[2]
    found: Explanation = arguments.explanation(arguments)
    found = replace(found, reads=tuple(map(without_credentials, found.reads)))
    if arguments.json:
        print_json({"command": command, **asdict(found), "done": False})
        return
    say(f"dptally {command} would do this; nothing has been done.", style="bold")
    for label, text in (
        ("", found.does),
        ("Reads", "; ".join(found.reads) or "nothing"),
        ("Writes", "; ".join(found.writes) or "standard output only"),
        ("Guarantee", found.guarantee or "none is needed: nothing private is touched."),
        ("Privacy", found.cost),
        ("Expect", found.expect),
        ("Time and memory", found.resources),
    ):
        if text:
            say(f"{label}: {text}" if label else text)


def described(arguments: argparse.Namespace) -> str:
    """What the help says the command does: the first paragraph of its description."""
    return " ".join(arguments.parser.description.split("\n\n")[0].split())


def inputs(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The private inputs, in words."""
    given = getattr(arguments, "input", None) or getattr(arguments, "sketch", [])
    table, query = getattr(arguments, "table", None), getattr(arguments, "query", None)
    part = f", table {table!r}" if table is not None else ", a query" if query is not None else ""
    names = given if isinstance(given, list) else [given]
    if getattr(arguments, "where", None) is not None:
        part += f", only rows with {quoted(arguments.where)}"
    if getattr(arguments, "time_column", None) is not None:
        ends = ((" from", arguments.since), (" until before", arguments.until))
        part += f", only {arguments.time_column!r}" + "".join(f"{word} {end}" for word, end in ends if end is not None)
    return tuple(f"{'standard input' if name == '-' else name}{part} (private)" for name in names)


def outputs(arguments: argparse.Namespace, what: str) -> tuple[str, ...]:
    """The output, in words."""
    if getattr(arguments, "output", None) is None:
        return (f"{what}, to standard output",)
    overwrite = ", replacing what is there" if arguments.overwrite else ", if it does not exist yet"
    return (f"{arguments.output}: {what}{overwrite}",)


def explain_reading(arguments: argparse.Namespace, **more: Any) -> Explanation:
    """The explanation of a command that reads releases, which are public."""
    names = arguments.release if isinstance(arguments.release, list) else [arguments.release]
    told: dict[str, Any] = {
        "does": described(arguments),
        "reads": tuple(f"{name} (public)" for name in names),
        "writes": () if getattr(arguments, "output", None) is None else outputs(arguments, "the result"),
        "guarantee": "That of the release: post-processing preserves it.",
    }
    return Explanation(**{**told, **more})


def explain_release(
    arguments: argparse.Namespace,
    *,
    pure: bool = False,
    unit: str | None = None,
    keys: int = 1,
    guarantee: str = "",
    cost: str = "",
    **more: Any,
) -> Explanation:
    """The explanation of a command that makes a release, and of the ledger that pays for it.

    Epsilon, delta and options of a ledger are checked as the command itself would. `pure` mechanisms keep delta = 0;
    of each `unit`, or of each row where that is None, so many `keys` are counted; `guarantee` and `cost` are what else
    is to be said about them.
    """
    epsilon, delta = numbers_of(arguments, pure=pure)
    size = f"epsilon = {float(epsilon):g}, delta = {float(delta):g}"
    if getattr(arguments, "not_private_seed", None) is not None:
        guaranteed = "NONE: seeded randomness is repeatable and not private."
        spent = "A seeded release must not be shown to anyone."
    else:
        guaranteed = (
            f"({size})-differential privacy for adding or removing "
            f"{'one row (or one of a count)' if unit is None else f'all rows of one {unit!r}'}, verified in exact "
            "arithmetic on the probability table in use, before any data is read."
        )
        if unit is not None and not keys:
            guaranteed += " How many keys of each are counted is chosen from sizes that are measured privately."
        elif unit is not None:
            counted = f"{keys:,} {'key' if keys == 1 else 'keys'}"
            guaranteed += f" At most {counted} of each are counted, chosen uniformly at random."
        each = "row" if unit is None else unit
        spent = f"{size}, once, for each {each}. Repeating it on the same data costs as much again."
    told: dict[str, Any] = {
        "does": described(arguments),
        "reads": inputs(arguments),
        "writes": outputs(arguments, "the release, which anyone may see"),
        "guarantee": f"{guaranteed} {guarantee}".rstrip(),
        "cost": f"{spent} {cost}".rstrip(),
    }
    return with_ledger(Explanation(**{**told, **more}), arguments, size)


def numbers_of(arguments: argparse.Namespace, *, pure: bool) -> tuple[Fraction, Fraction]:
    """Epsilon and delta, checked as the command itself would."""
    epsilon = as_epsilon(arguments.epsilon)
    if pure:
        if arguments.delta is not None and as_fraction("delta", arguments.delta) != 0:
            raise InvalidParameter(f"this mechanism keeps delta = 0; leave --delta out, got {arguments.delta}.")
        return epsilon, Fraction(0)
    if arguments.delta is None:
        raise InvalidParameter("--delta is missing: this mechanism needs one, such as 1e-6.")
    return epsilon, as_delta(arguments.delta)


def with_ledger(explanation: Explanation, arguments: argparse.Namespace, size: str) -> Explanation:
    """The explanation of a command, and of the ledger that pays for it, if there is one."""
    part = ledger_part(arguments)
    if arguments.ledger is None:
        return explanation
    whose = "" if part is None else f" Only units of the part {part[1]!r} of {part[0]!r} pay, who are in no other part."
    ledger = (
        f"The ledger {arguments.ledger} is spent first: {size} is reserved in it before any data is read, and refused "
        "if the budget does not cover it. It is given back only if the command fails before the first row is read; "
        f"after that it stays spent, unless you void a failure by hand (dptally ledger void).{whose}"
    )
    return replace(
        explanation,
        cost=f"{explanation.cost} {ledger}",
        writes=(*explanation.writes, f"{arguments.ledger}: the entry that pays, before sampling begins"),
    )


def expected(law: Reporting) -> str:
    """From which counts on keys are released, in words."""
    half, likely = (law.first_frequency(level) for level in (Fraction(1, 2), Fraction(95, 100)))
    if half == 0:
        return "Every key of the universe has a value, with noise."
    if half is None:
        return "Sampling takes no key often enough to be reported half the time."
    later = "" if likely is None else f", and 95 % of the time at {likely:,}"
    return f"A key is reported half the time at count {half:,}{later}. See dptally plan for more."
