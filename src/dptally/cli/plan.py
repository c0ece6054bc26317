"""The command ``plan``.

JSON: `epsilon`, `delta` (exact, as strings), `values`, `asked` and `others`: what a bound on keys per unit leads to,
see `dptally.planning.PlanLine`. With ``--universe``: `epsilon`, `delta`, `size` (as strings), `universe`, `capacity`,
`max_keys_per_unit`, `recommended`, `recommendation` and `lines`, see `dptally.universe_planning.UniverseLine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.cli.parser import add_command, add_privacy, add_sampling, add_unit_bound, sampling_of, whole_number

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands
    from dptally.universe_planning import UniversePlan

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add ``plan``."""
    parser = add_command(
        commands,
        "plan",
        _plan,
        summary="what to expect, before any data is read",
        details=(
            "Say at which frequencies keys are reported, how far off estimates are, and what more keys per unit cost.\n"
            "With --universe, compare the mechanisms that need no --delta, and recommend one.\n"
            "Exact, from the law alone: no data is read and nothing is spent."
        ),
        example="dptally plan --epsilon 1 --delta 1e-6 --max-keys-per-unit 3",
    )
    add_privacy(parser, pure=True)
    add_unit_bound(parser)
    parser.add_argument("--universe", metavar="NAME", help="all keys there may be, such as ipv4 or words:12")
    parser.add_argument("--capacity", metavar="N", type=whole_number, help="as for publish (default: 10000)")
    parser.add_argument(
        "--asked-for",
        choices=("frequent", "any"),
        help="whether the question is which keys are frequent, or how frequent any key is that somebody asks for",
    )
    add_sampling(parser, help="how keys are sampled, such as ppswor:0.01 (default: no sampling)")


def _plan(arguments: argparse.Namespace) -> None:
    from dptally.cli.printing import print_json, print_numbers, say
    from dptally.planning import Plan, plan

    forecast = plan(
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        max_keys_per_unit=arguments.max_keys_per_unit,
        sampling=sampling_of(arguments),
        values=not arguments.keys_only,
        universe=arguments.universe,
        capacity=arguments.capacity,
        asked_for=arguments.asked_for,
    )
    if arguments.json:
        print_json(forecast.describe())
        return
    say(str(forecast))
    say()
    if not isinstance(forecast, Plan):
        _print_mechanisms(forecast)
        return
    lines = sorted((forecast.asked, *forecast.others), key=lambda line: line.max_keys_per_unit)
    print_numbers(
        "A key is reported from this frequency on, by the number of keys a unit may have:",
        ("keys per unit", "50 %", "95 %", "always", "always, if divided", "mean error"),
        [
            (
                f"{line.max_keys_per_unit:,}",
                *(_frequency(found) for found in (line.half, line.likely, line.always, line.always_if_divided)),
                "-" if line.mean_absolute_error is None else f"{line.mean_absolute_error:,.2f}",
            )
            for line in lines
        ],
        marked=lines.index(forecast.asked),
    )
    say('"If divided": epsilon and delta divided by the keys per unit instead of composed exactly.', style="dim")


def _print_mechanisms(forecast: UniversePlan) -> None:
    from dptally.cli.printing import print_numbers, say

    names = [line.mechanism for line in forecast.lines]
    print_numbers(
        "A key is released from this frequency on, and values are within (95 %):",
        ("mechanism", "50 %", "95 %", "one key", "all keys", "least possible"),
        [
            (
                line.mechanism,
                _frequency(line.half),
                _frequency(line.likely),
                f"{line.key_error:,}",
                "-" if line.simultaneous_error is None else f"{line.simultaneous_error:,}",
                "-" if line.least_possible_error is None else f"{line.least_possible_error:,.1f}",
            )
            for line in forecast.lines
        ],
        marked=names.index(forecast.recommended),
    )
    say('"All keys": of the universe at once; for compact, of as many keys as the capacity.', style="dim")


def _frequency(frequency: int | None) -> str:
    return "never" if frequency is None else f"{frequency:,}"
