"""The command ``plan``.

JSON: `epsilon`, `delta` (exact, as strings), `values`, `asked` and `others`: what a bound on keys per unit leads to,
see `dptally.planning.PlanLine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.cli.parser import add_command, add_privacy, add_sampling, add_unit_bound, sampling_of

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands

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
            "Exact, from the law alone: no data is read and nothing is spent."
        ),
        example="dptally plan --epsilon 1 --delta 1e-6 --max-keys-per-unit 3",
    )
    add_privacy(parser)
    add_unit_bound(parser)
    add_sampling(parser, help="how keys are sampled, such as ppswor:0.01 (default: no sampling)")


def _plan(arguments: argparse.Namespace) -> None:
    from dptally.cli.printing import print_json, print_numbers, say
    from dptally.planning import plan

    forecast = plan(
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        max_keys_per_unit=arguments.max_keys_per_unit,
        sampling=sampling_of(arguments),
        values=not arguments.keys_only,
    )
    if arguments.json:
        print_json(forecast.describe())
        return
    say(str(forecast))
    say()
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


def _frequency(frequency: int | None) -> str:
    return "never" if frequency is None else f"{frequency:,}"
