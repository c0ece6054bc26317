"""What the commands would do, in words. See `dptally.cli.explain`."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dptally.cli.explain import Explanation, explains
from dptally.cli.ledger_explanations import with_ledger

if TYPE_CHECKING:
    import argparse

    from dptally.planning.mechanisms import Setting

__all__: list[str] = []

_PURE = ("dense", "sparse", "compact")
_WAYS = {
    "weighted_sample": "reports each key as likely as privacy allows, with a value from the same draw",
    "stability": "adds noise to each count and reports what is above a threshold",
    "gaussian": "adds Gaussian noise to each count and reports what is above a threshold",
    "sample_and_threshold": "keeps each unit of a key by a secret coin and reports keys of which enough were kept",
    "misra_gries": "counts in a sketch of bounded memory, adds noise, and reports what is above a threshold",
    "dense": "gives every key of a public list a noisy value, whether anybody has it or not",
    "sparse": "reports the keys of a huge universe with the heaviest noisy counts",
    "compact": "makes a small file that answers any key of a huge universe",
}
_COUNTING = (
    "Time grows with the rows, about a second for ten million where rows are units and several where a column is the "
    "unit; memory grows with the distinct keys, and the counting engine goes to disk beyond its limit."
)


def _inputs(arguments: argparse.Namespace) -> tuple[str, ...]:
    given = arguments.input if isinstance(arguments.input, list) else [arguments.input]
    table, query = getattr(arguments, "table", None), getattr(arguments, "query", None)
    part = f", table {table!r}" if table is not None else ", a query" if query is not None else ""
    return tuple(f"{'standard input' if name == '-' else name}{part} (private)" for name in given)


def _output(arguments: argparse.Namespace, what: str) -> tuple[str, ...]:
    if getattr(arguments, "output", None) is None:
        return (f"{what}, to standard output",)
    overwrite = ", replacing what is there" if getattr(arguments, "overwrite", False) else ", if it does not exist yet"
    return (f"{arguments.output}: {what}{overwrite}",)


def _numbers(arguments: argparse.Namespace, *, pure: bool) -> tuple[Fraction, Fraction]:
    """Epsilon and delta, checked as the command itself would."""
    from dptally.errors import InvalidParameter
    from dptally.exact import as_delta, as_epsilon, as_fraction

    epsilon = as_epsilon(arguments.epsilon)
    if pure:
        if arguments.delta is not None and as_fraction("delta", arguments.delta) != 0:
            raise InvalidParameter(f"this mechanism keeps delta = 0; leave delta out, got {arguments.delta}.")
        return epsilon, Fraction(0)
    if arguments.delta is None:
        raise InvalidParameter("delta is missing: this mechanism needs one, such as 1e-6.")
    return epsilon, as_delta(arguments.delta)


def _promise(epsilon: Fraction, delta: Fraction, unit: str | None, keys: int, seed: object = None) -> tuple[str, str]:
    """The guarantee and its cost, in words."""
    if seed is not None:
        return "NONE: a seeded draw is repeatable and not private.", "A seeded release must not be shown to anyone."
    whose = "one row (or one of a count)" if unit is None else f"all rows of one {unit!r}"
    size = f"epsilon = {float(epsilon):g}" + (f", delta = {float(delta):g}" if delta else ", delta = 0")
    bound = (
        ""
        if unit is None
        else f" At most {keys:,} {'key' if keys == 1 else 'keys'} of each are counted, chosen at random."
    )
    guarantee = (
        f"Differential privacy with {size} for adding or removing {whose}, checked in exact arithmetic on the very "
        f"table that is drawn from, before any data is read.{bound}"
    )
    each = "row" if unit is None else unit
    cost = f"{size}, once, for each {each}. Doing it again with the same data costs as much again."
    return guarantee, cost


def _expected(setting: Setting, name: str) -> str:
    from dptally.planning.mechanisms import make_mechanism

    planned = make_mechanism(name, setting)
    half, likely = (planned.first_frequency(level) for level in (Fraction(1, 2), Fraction(95, 100)))
    if half == 0:
        return "Every key of the universe has a value, with noise."
    if half is None:
        return "Sampling takes no key often enough to be reported half the time."
    later = "" if likely is None else f", and 95 % of the time at {likely:,}"
    return f"A key is reported half the time at frequency {half:,}{later}. See dptally plan for more."


@explains("publish")
def _publish(arguments: argparse.Namespace) -> Explanation:
    from dptally.cli.parser import sampling_of
    from dptally.errors import InvalidParameter
    from dptally.exact import as_count
    from dptally.planning.mechanisms import Setting, sampled_name
    from dptally.privacy.composition import LARGEST_UNIT

    name = arguments.mechanism
    if name not in _WAYS:
        raise InvalidParameter(f"mechanism must be one of {', '.join(_WAYS)}, got {name[:40]!r}.")
    pure = name in _PURE
    if pure and arguments.universe is None:
        raise InvalidParameter(f"mechanism {name!r} needs a universe: all keys there may be, such as 'ipv4'.")
    epsilon, delta = _numbers(arguments, pure=pure)
    keys = as_count("max_keys_per_unit", arguments.max_keys_per_unit, largest=LARGEST_UNIT)
    if arguments.unit is None and keys > 1:
        raise InvalidParameter("--max-keys-per-unit needs --unit: without one, every row is its own unit with one key.")
    scheme = sampling_of(arguments)
    guarantee, cost = _promise(epsilon, delta, arguments.unit, keys, arguments.not_private_seed)
    expect = ""
    if not pure and (scheme is None or scheme.size is None):
        capacity = 10_000 if arguments.capacity is None else arguments.capacity
        setting = Setting(
            epsilon, delta, keys, by_unit=arguments.unit is not None, values=not arguments.keys_only,
            sampling=scheme, capacity=capacity,
        )  # fmt: skip
        expect = _expected(setting, name if scheme is None else sampled_name(scheme))
    columns = " and ".join(repr(column) for column in arguments.key)
    counted = "rows" if arguments.unit is None else f"different {arguments.unit!r}"
    sampled = "" if scheme is None else f" Keys are sampled by {scheme} first, with secret coins."
    explanation = Explanation(
        does=(
            f"Count how many {counted} each value of {columns} has, and publish it by the mechanism {name!r}, which "
            f"{_WAYS[name]}.{sampled}"
        ),
        reads=_inputs(arguments),
        writes=_output(arguments, "the release, which anyone may see"),
        guarantee=guarantee,
        cost=cost,
        resources=_COUNTING,
        expect=expect,
    )
    return with_ledger(explanation, arguments, (epsilon, delta))


@explains("sanitize")
def _sanitize(arguments: argparse.Namespace) -> Explanation:
    from dptally.cli.parser import sampling_of
    from dptally.planning.mechanisms import Setting, sampled_name

    epsilon, delta = _numbers(arguments, pure=False)
    scheme = sampling_of(arguments)
    guarantee, cost = _promise(epsilon, delta, None, 1, arguments.not_private_seed)
    expect = ""
    if scheme is not None and scheme.size is None:
        setting = Setting(epsilon, delta, values=not arguments.keys_only, sampling=scheme)
        expect = _expected(setting, sampled_name(scheme))
    explanation = Explanation(
        does=(
            f"Release keys of a sample that was drawn by {scheme}, each with the probability that sampling and "
            "reporting have together."
        ),
        reads=_inputs(arguments),
        writes=_output(arguments, "the release, which anyone may see"),
        guarantee=f"{guarantee} It rests on how the sample was drawn: key by key, by secret coins, at a fixed rate.",
        cost=cost,
        resources="Time and memory grow with the sample.",
        expect=expect,
    )
    return with_ledger(explanation, arguments, (epsilon, delta))


@explains("sketch build")
def _sketch_build(arguments: argparse.Namespace) -> Explanation:
    whose = "rows" if arguments.unit is None else f"different {arguments.unit!r}"
    written: tuple[str, ...] = (f"{arguments.output}: the sketch, PRIVATE, for its owner only",)
    if arguments.checkpoint is not None:
        written += (f"{arguments.checkpoint}: the sketch so far, PRIVATE, every so often",)
    return Explanation(
        does=f"Count how many {whose} each value of {arguments.key!r} has, in {arguments.capacity:,} counters.",
        reads=_inputs(arguments),
        writes=written,
        guarantee="None: the sketch holds private data and must not leave its owner.",
        cost="Nothing is spent before the sketch is published.",
        resources=f"Some ten million rows a second; memory for {arguments.capacity:,} counters, whatever the data.",
    )


@explains("sketch merge")
def _sketch_merge(arguments: argparse.Namespace) -> Explanation:
    way = "Reduce the sensitivity of sketches and add them up" if arguments.sum else "Merge sketches into one"
    return Explanation(
        does=f"{way}, of equal capacity.",
        reads=tuple(f"{name} (private)" for name in arguments.sketch),
        writes=(f"{arguments.output}: the sketch, PRIVATE, for its owner only",),
        guarantee="None: the sketch holds private data and must not leave its owner.",
        cost="Nothing is spent before the sketch is published.",
        resources="Less than a second for each sketch; memory for their counters.",
    )


@explains("sketch show")
def _sketch_show(arguments: argparse.Namespace) -> Explanation:
    return Explanation(
        does=f"Show the {arguments.n:,} largest counters of a sketch, as they are.",
        reads=(f"{arguments.sketch} (private)",),
        guarantee="None: what is printed is private and must not leave the data's owner.",
        cost="Nothing is spent, because nothing may be shown to anyone.",
    )


@explains("sketch publish")
def _sketch_publish(arguments: argparse.Namespace) -> Explanation:
    epsilon, delta = _numbers(arguments, pure=arguments.universe is not None)
    _, cost = _promise(epsilon, delta, "unit of the sketch", 1, arguments.not_private_seed)
    size = f"epsilon = {float(epsilon):g}, delta = {float(delta):g}"
    shortfall = ""
    if arguments.shortfall == "private":
        shortfall = f" Of epsilon, {float(epsilon / 20):g} goes to telling how far the sketch falls short."
    explanation = Explanation(
        does=(
            "Add noise that fits what the sketch is (of one stream, merged, of units, or added up), and release what "
            f"is above the threshold that privacy needs.{shortfall}"
        ),
        reads=(f"{arguments.sketch} (private)",),
        writes=_output(arguments, "the release, which anyone may see"),
        guarantee=(
            f"Differential privacy with {size} for adding or removing one unit: an element of the stream, or a unit of "
            "the sketch; checked before counters are read."
        ),
        cost=cost,
    )
    return with_ledger(explanation, arguments, (epsilon, delta))


@explains("heavy-hitters")
def _heavy_hitters(arguments: argparse.Namespace) -> Explanation:
    epsilon, delta = _numbers(arguments, pure=False)
    guarantee, cost = _promise(epsilon, delta, arguments.unit, 1, arguments.not_private_seed)
    rounds = "one round" if arguments.single_round else "one round for each level"
    explanation = Explanation(
        does=(
            f"Find the frequent prefixes and values of {arguments.key!r}, in {rounds}, each from a fresh secret sample "
            f"(levels: {arguments.levels})."
        ),
        reads=_inputs(arguments),
        writes=_output(arguments, "the tree of prefixes, which anyone may see"),
        guarantee=f"{guarantee} All rounds together.",
        cost=cost,
        resources=_COUNTING,
    )
    return with_ledger(explanation, arguments, (epsilon, delta))


@explains("quantile")
def _quantile(arguments: argparse.Namespace) -> Explanation:
    if arguments.saved is not None:
        return Explanation(
            does="Read quantiles off a saved tree of counts.",
            reads=(f"{arguments.saved} (public)",),
            writes=(),
            guarantee="That of the release: whatever is computed from it keeps it.",
        )
    epsilon, delta = _numbers(arguments, pure=arguments.mechanism == "dense")
    guarantee, cost = _promise(epsilon, delta, arguments.unit, 1, arguments.not_private_seed)
    shares = ", ".join(arguments.quantile or ("0.25", "0.5", "0.75"))
    explanation = Explanation(
        does=(
            f"Cut the public interval from {arguments.low} to {arguments.high} into bins, publish a tree of counts "
            f"over them by {arguments.mechanism!r}, and read the quantiles {shares} of {arguments.value!r} off it."
        ),
        reads=_inputs(arguments),
        writes=(*_output(arguments, "the tree, which anyone may see"),),
        guarantee=f"{guarantee} All levels of the tree together; the interval must not depend on the data.",
        cost=f"{cost} More quantiles of the same tree cost nothing.",
        resources=_COUNTING,
    )
    return with_ledger(explanation, arguments, (epsilon, delta))


@explains("federated simulate", "federated serve")
def _federated_run(arguments: argparse.Namespace) -> Explanation:
    simulated = arguments.command_path.endswith("simulate")
    task = "the task of a file" if arguments.task is not None else "a histogram of keys"
    where = (
        f"{arguments.nodes:,} simulated nodes"
        if simulated
        else f"nodes that connect to {arguments.host}:{arguments.port}"
    )
    spent = None if arguments.epsilon is None else _numbers(arguments, pure=False)
    if spent is not None:
        guarantee, cost = _promise(*spent, "device", 1)
    else:
        guarantee = "What the task of the file states, for adding or removing one device."
        cost = "What the task of the file states, once for each device that is asked."
    reads: tuple[str, ...] = (
        (f"{arguments.input} (private)",) if simulated else ("votes of devices, over the network (private)",)
    )
    if arguments.task is not None:
        reads = (*reads, f"{arguments.task} (the task)")
    writes = _output(arguments, "the release, which anyone may see")
    if arguments.state is not None:
        writes = (*writes, f"{arguments.state}: the public state of the run")
    explanation = Explanation(
        does=(
            f"Run {task} over {where}: each device takes part by a secret coin of its own, and what enough of them "
            "said is released."
        ),
        reads=reads,
        writes=writes,
        guarantee=f"{guarantee} The server is trusted until it has applied the threshold.",
        cost=f"{cost} A round that is cut off and asked again is spent twice.",
        resources="Seconds to minutes for each round, mostly waiting; a process for each node that answers.",
    )
    return with_ledger(explanation, arguments, spent)


@explains("federated client")
def _federated_client(arguments: argparse.Namespace) -> Explanation:
    security = "without TLS, in the clear" if arguments.insecure else "over TLS"
    return Explanation(
        does=(
            f"Answer the server at {arguments.superlink} for the devices of a table, {security}, until it is stopped. "
            "Each device takes part by a secret coin of its own; one that does not sends a message of the same size."
        ),
        reads=(f"{arguments.input} (private)",),
        writes=("votes of the devices that take part, to the server",),
        guarantee="That of each task, which the server states; a device trusts the server until the threshold.",
        cost="What each task that is answered states, once for each device.",
        resources="A process while it runs; little work.",
    )


@explains("show", "top", "count", "sum", "plot")
def _read(arguments: argparse.Namespace) -> Explanation:
    command = arguments.command_path
    does = {
        "show": "Show the guarantee, the certificate, first rows and how frequent the released keys are.",
        "top": "List the released keys with the largest values, with bounds.",
        "count": "Look up the values of given keys, with bounds.",
        "sum": "Estimate a sum over keys, released or not, from the released values, with bounds.",
        "plot": "Draw the most frequent released keys and the chance with which a key of each frequency appears.",
    }[command]
    return Explanation(
        does=does,
        reads=(f"{arguments.release} (public)",),
        writes=(f"{arguments.output}: the picture",) if command == "plot" else (),
        guarantee="That of the release: whatever is computed from it keeps it.",
    )


@explains("combine")
def _combine(arguments: argparse.Namespace) -> Explanation:
    together = {
        "disjoint": "The weakest of the releases', provided that every unit is in one stream only, as you state.",
        "shared": "Epsilons and deltas of the releases added up, since a unit may be in all streams.",
    }[arguments.units]
    writes = () if arguments.output is None else _output(arguments, "the sums of all keys, which anyone may see")
    return Explanation(
        does=(
            f"Add up {len(arguments.release):,} releases, and print the {arguments.n:,} keys with the largest sums, "
            "with bounds, and how much of a key may be hidden."
        ),
        reads=tuple(f"{name} (public)" for name in arguments.release),
        writes=writes,
        guarantee=together,
    )


@explains("report")
def _report(arguments: argparse.Namespace) -> Explanation:
    from dptally.report.writing import CHART_FORMATS

    writes = _output(arguments, "the page, which anyone may see")
    if arguments.charts is not None:
        kinds = " and ".join(kind.upper() for kind in arguments.chart_format or CHART_FORMATS)
        writes = (*writes, f"{arguments.charts}/: its charts as {kinds}")
    return Explanation(
        does=(
            "Check the certificate of the release again, and write one HTML page about it: what is promised, how it "
            "was checked, the most frequent keys with bounds, and what privacy hides. The page loads and sends nothing."
        ),
        reads=(f"{arguments.release} (public)",),
        writes=writes,
        guarantee="That of the release: whatever is computed from it keeps it.",
        resources="About a second; some seconds for laws with sampling or a very small epsilon.",
    )


@explains("explore")
def _explore(arguments: argparse.Namespace) -> Explanation:
    port = "a free port" if arguments.port == 0 else f"port {arguments.port}"
    browser = "" if arguments.no_browser else " It is opened in a browser where there is a screen."
    about = "" if arguments.release is None else ", and to filter and add up the release"
    return Explanation(
        does=(
            f"Serve a page on {port} of 127.0.0.1, to this machine only, until it is stopped: to try epsilon, delta, "
            f"sampling and keys per unit on the laws of all mechanisms{about}. Its address holds a secret token, new "
            f"every time.{browser}"
        ),
        reads=() if arguments.release is None else (f"{arguments.release} (public)",),
        guarantee="That of the release, if one is given; the curves are computed from parameters alone.",
        cost="No privacy is spent: no data is read but what is public already.",
        resources="A process while it runs; a curve takes milliseconds, the slowest some seconds.",
    )


@explains("verify")
def _verify(arguments: argparse.Namespace) -> Explanation:
    paid = "" if arguments.ledger is None else " Then find the entry of the ledger that paid for it."
    return Explanation(
        does=(
            "Make the law of the release again from its parameters, compute its exact privacy loss, and compare it "
            f"with the certificate. That values were drawn from this law, no file can show.{paid}"
        ),
        reads=(
            f"{arguments.release} (public)",
            *(() if arguments.ledger is None else (f"{arguments.ledger} (ledger)",)),
        ),
        guarantee="That of the release, checked again.",
        resources="Usually below a second; some seconds for laws with sampling or a very small epsilon.",
    )


@explains("plan")
def _plan(arguments: argparse.Namespace) -> Explanation:
    reads = (
        () if arguments.example is None else (f"{arguments.example} (must be PUBLIC: the plan shows what it holds)",)
    )
    does = "Say for every mechanism which keys are reported, how many, how far off estimates are, and what it takes."
    if arguments.need is not None:
        does += f" First find what it takes to report keys as {arguments.need} says."
    return Explanation(
        does=does,
        reads=reads,
        writes=() if arguments.html is None else (f"{arguments.html}: the plan as a page",),
        guarantee="None is needed: a plan is made from parameters and public knowledge.",
        cost="No privacy is spent.",
        resources="Below a second for usual parameters; some seconds for an epsilon below 0.02, or with --need.",
    )


@explains("example")
def _example(arguments: argparse.Namespace) -> Explanation:
    from dptally.cli.example_data import REQUEST

    directory = arguments.directory or "dptally-example"
    pictures = () if arguments.no_picture else (f"{directory}/release.png and .svg: pictures",)
    guarantee, _ = _promise(
        Fraction(str(REQUEST["epsilon"])), Fraction(str(REQUEST["delta"])), str(REQUEST["unit"]),
        int(str(REQUEST["max_keys_per_unit"])),
    )  # fmt: skip
    return Explanation(
        does=(
            "Publish the words of Shakespeare's Hamlet, with the line as the unit of privacy, show the result and "
            "write a page about it."
        ),
        reads=("a text that comes with the package",),
        writes=(
            f"{directory}/hamlet.csv: the data",
            f"{directory}/release.parquet: the release",
            f"{directory}/report.html: the page",
            *pictures,
        ),
        guarantee=guarantee,
        cost="None of anybody's: Hamlet has been public for some time.",
        resources="A few seconds.",
    )


@explains("completion", "man", "help")
def _about_commands(arguments: argparse.Namespace) -> Explanation:
    does = {
        "completion": "Print a script that completes commands, options and file names in a shell.",
        "man": "Print the manual page of all commands.",
        "help": "Print the help of a command.",
    }[arguments.command_path]
    output = getattr(arguments, "output", None)
    return Explanation(
        does=does,
        writes=() if output is None else (f"{output}: the manual page",),
        cost="No privacy is spent.",
        resources="Less than a second.",
    )
