"""The command ``audit``. Exit status 1 if something exceeds what is claimed, or a control was not found."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dptally.cli.explain import Explanation, described
from dptally.cli.options import MechanismNames, given
from dptally.cli.parser import Commands, add_command, add_flag, add_number, add_value
from dptally.cli.printing import print_json, print_numbers, say
from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.progress import progress_reporter

if TYPE_CHECKING:
    from dptally.audit import BlackBoxFinding, ExactAudit, SideChannel

_SEED = 8
_AUDITED = MechanismNames(("all",), ("ranges", "heavy_hitters"))


def add_commands(commands: Commands) -> None:
    """Add ``audit``."""
    parser = add_command(commands, "audit", _audit, _explain)
    audited = f"what to audit: {', '.join(_AUDITED)}"
    add_value(parser, "mechanism", "MECHANISM", audited, nargs="?", default="all", choices=_AUDITED)
    add_value(parser, "--epsilon", "E", "to ask for in the black-box audit", default="1")
    rare = "to ask for; large, since what is rarer than one over the runs cannot be seen"
    add_value(parser, "--delta", "D", rare, default="0.01")
    add_number(parser, "--runs", "N", "samples of each data set (default: what suits the mechanism)")
    add_flag(parser, "--exact", "the exact audit instead of the black-box one")
    add_number(parser, "--settings", "N", "of the exact audit", default=1000)
    add_number(parser, "--processes", "N", "that do the exact audit", default=1)
    add_flag(parser, "--side-channels", "look at order, files, errors and time instead")
    add_flag(parser, "--self-test", "also audit releases made for more than is claimed, which must be found (minutes)")
    add_number(
        parser, "--seed", "N", f"repeat an audit (default: fresh secret bits for releases, {_SEED} for settings)"
    )
    add_flag(parser, "-q --quiet", "show no progress")


def _check(arguments: argparse.Namespace) -> None:
    for name, smallest in (("runs", 100), ("settings", 1), ("processes", 1)):
        number = getattr(arguments, name)
        if number is not None and number < smallest:
            raise InvalidParameter(f"--{name} must be at least {smallest}, got {number}.")
    if arguments.exact and arguments.side_channels:
        raise InvalidParameter("--exact and --side-channels are two audits: ask for one at a time.")


def _audit(arguments: argparse.Namespace) -> None:
    """Look for a broken guarantee.

    Audit mechanisms of this installation with made-up data; nothing of yours is read.
    Black box (the default): publish neighbouring data sets many times, through files, and bound epsilon
    from below. --exact: compare the output distributions of random settings in exact numbers.
    --side-channels: look at order, files, errors and time. --self-test: also audit releases made for twice
    epsilon or four times delta, which must be found. Exit status 1 if a guarantee is broken, or such a
    release is not found.

    dptally audit weighted_sample --epsilon 1 --delta 0.01 --runs 100000
    dptally audit all --exact --settings 10000 --processes 2
    """
    _check(arguments)
    report: dict[str, Any] = {"mechanism": arguments.mechanism, "seed": arguments.seed}
    show = not arguments.json
    if arguments.side_channels:
        passed = _side_channels(arguments, report, show)
    elif arguments.exact:
        passed = _exact(arguments, report, show)
    else:
        passed = _black_box(arguments, report, show)
    if arguments.json:
        print_json({**report, "passed": passed})
    if not passed:
        raise PrivacyViolation("the audit did not pass: see its report.")


def _exact(arguments: argparse.Namespace, report: dict[str, Any], show: bool) -> bool:
    from dptally.audit import audit_exactly

    seed = _SEED if arguments.seed is None else arguments.seed
    with progress_reporter(None if show and not arguments.quiet else False) as report_stage:
        found = audit_exactly(
            arguments.mechanism,
            **given(arguments, "settings processes"),
            seed=seed,
            progress=report_stage and (lambda done, of: report_stage("settings", done / of)),
        )
    report["seed"], report["exact"] = seed, found.describe()
    if show:
        _print_exact(found)
    return found.passed


def _print_exact(found: ExactAudit) -> None:
    rows: list[tuple[str, ...]] = []
    for name, number in found.settings.items():
        controls = [
            f"{what} {hits}/{tried}" for (subject, what), (hits, tried) in found.controls.items() if subject == name
        ]
        broken = sum(finding.mechanism == name or name in finding.mechanism for finding in found.violations)
        rows.append((name, f"{number:,}", str(broken), ", ".join(controls)))
    compared = f"{found.comparisons:,} pairs of distributions in {found.settings.total():,} settings"
    title = f"Exact audit, seed {found.seed}: {compared}."
    print_numbers(title, ("mechanism", "settings", "violations", "controls found"), rows, marked=-1, labelled=True)
    for finding in found.violations[:20]:
        say(f"VIOLATED: {finding.mechanism}, setting {finding.place}, {finding.setting}: {finding.violations[0]}.")
    for name, control in found.missed:
        say(f"MISSED: {control} of {name} was not found.")
    say("Every mechanism keeps its claim, and every control was found." if found.passed else "The audit did not pass.")


def _black_box(arguments: argparse.Namespace, report: dict[str, Any], show: bool) -> bool:
    from dptally.audit import audit_black_box, audit_controls

    def tell(name: str) -> None:
        if show and not arguments.quiet:
            say(f"auditing {name} ...", remark=True)

    found = audit_black_box(arguments.mechanism, **given(arguments, "epsilon delta runs seed"), progress=tell)
    report["black_box"] = [finding.describe() for finding in found]
    controls: list[BlackBoxFinding] = []
    if arguments.self_test:
        controls = audit_controls(arguments.mechanism, seed=arguments.seed, progress=tell)
        report["controls"] = [finding.describe() for finding in controls]
    if show:
        _print_black_box("Lower bounds of epsilon, from releases alone.", found, expected=False)
        if controls:
            _print_black_box(
                "The same for releases made for more than is claimed, which must be found.", controls, expected=True
            )
    return not any(finding.violated for finding in found) and all(finding.violated for finding in controls)


def _print_black_box(title: str, found: list[BlackBoxFinding], *, expected: bool) -> None:
    names = ("mechanism", "epsilon", "delta", "lower bound", "runs", "verdict", "event")
    rows: list[tuple[str, ...]] = []
    for finding in found:
        verdict = (
            ("found" if finding.violated else "MISSED") if expected else "VIOLATED" if finding.violated else "kept"
        )
        label = f"{finding.name}, {finding.control}" if finding.control else finding.name
        numbers = (f"{float(finding.epsilon):.4g}", f"{float(finding.delta):.3g}", f"{finding.bound.epsilon:.3f}")
        event = f"{finding.bound.event}; {finding.bound.neighbours}"
        rows.append((label, *numbers, f"{2 * finding.bound.runs[0]:,}", verdict, event))
    print_numbers(title, names, rows, marked=-1, labelled=True)


def _side_channels(arguments: argparse.Namespace, report: dict[str, Any], show: bool) -> bool:
    from dptally.audit import audit_side_channels

    found: list[SideChannel] = audit_side_channels(seed=_SEED if arguments.seed is None else arguments.seed)
    report["side_channels"] = [channel.describe() for channel in found]
    if show:
        for channel in found:
            verdict = {True: "LEAKS", False: "closed", None: "no verdict"}[channel.leaks]
            say(f"{channel.name} ({verdict})", style="bold")
            say(f"Looked at: {channel.looked_at}. Found: {channel.found}.")
    return not any(channel.leaks for channel in found)


def _explain(arguments: argparse.Namespace) -> Explanation:
    _check(arguments)
    minutes = max(1, arguments.settings // 900)
    return Explanation(
        described(arguments),
        writes=("made-up data and releases in a temporary directory, which is removed",),
        guarantee="None is needed: all data is made up.",
        cost="No privacy is spent.",
        resources=f"Exact: about {minutes} minutes of one core, divided by the processes. Side channels: seconds. "
        "Black box: up to a minute for each mechanism, and several with --self-test.",
    )
