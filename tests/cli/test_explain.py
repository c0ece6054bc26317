"""Every command explains itself without doing anything, and has help worth a manual page."""

from __future__ import annotations

import ast
import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import dptally.cli
from dptally.cli.commands import COMMANDS as MODULES
from dptally.cli.commands import build_parser
from dptally.cli.parser import leaf_commands
from dptally.laws.registry import mechanism_names
from tests.cli.conftest import PRIVACY, Run

COMMANDS = [path for path, _ in leaf_commands(build_parser())]
EXAMPLES = [
    line.strip()
    for _, command in leaf_commands(build_parser())
    for line in (command.epilog or "").split("\n")
    if line.startswith("  dptally ")
]


def test_the_registry_lists_every_command_with_its_module() -> None:
    """A parser built for one command alone has it, with all that is below it."""
    for name in MODULES:
        alone = {path for path, _ in leaf_commands(build_parser(name))}
        assert {path for path in COMMANDS if path.split()[0] == name} <= alone <= set(COMMANDS)
    assert {path.split()[0] for path in COMMANDS} == set(MODULES)


def test_no_command_has_the_name_of_a_mechanism() -> None:
    """Which mechanisms there are, which is usual and what they do is asked of the registry."""
    for file in Path(dptally.cli.__file__).parent.glob("*.py"):
        texts = {node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)}
        assert not texts & set(mechanism_names()), file.name


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_explained_and_nothing_is_done(
    example: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --explain every example parses, names a cost, reads no file (there is none) and writes none."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(example.split(">")[0].split("|")[0])[1:]
    words = [word for word in words if word != "--json"]
    done = run(*words, "--explain")
    assert (done.status, done.err) == (0, "")
    assert "nothing has been done" in done.out and "Privacy: " in done.out and "Reads: " in done.out
    facts = json.loads(run(*words, "--json", "--explain").out)
    assert facts["done"] is False and facts["does"] and facts["cost"] and facts["resources"]
    assert list(tmp_path.iterdir()) == []


def test_an_explanation_of_publish_says_what_is_guaranteed(run: Run) -> None:
    """Unit, bound, epsilon, delta, mechanism and the counts to expect are in it."""
    command = "publish e.csv --key query --unit user --max-keys-per-unit 3 --epsilon 1 --delta 1e-6 --explain"
    words = [*shlex.split(command), "--mechanism", "weighted_sample"]
    out = run(*words).out
    for part in (
        "'query'",
        "'user'",
        "epsilon = 1, delta = 1e-06",
        "At most 3 keys",
        "count 40",
        "e.csv (private)",
    ):
        assert part in out
    assert "NONE: seeded randomness" in run(*words, "--not-private-seed", 1).out


LEDGER = ("--ledger", "budget.db", "--ledger-part", "country=it")
DRAWING = [
    "publish e.csv --key query --unit user --epsilon 0.5 --delta 1e-6",
    "publish e.csv --key query --epsilon 0.5 --delta 1e-6 --not-private-seed 1",
    "sanitize s.csv --key k --count n --sampling ppswor:0.1 --epsilon 0.5 --delta 1e-6",
    "sketch publish s.sketch --epsilon 0.5 --delta 1e-6",
    "heavy-hitters e.csv --key query --levels 3 --epsilon 0.5 --delta 1e-6",
    "quantile e.csv --value v --low 0 --high 9 --epsilon 0.5 --delta 1e-6 --mechanism sample_and_threshold",
    "federated simulate d.csv --key k --nodes 9 --epsilon 0.5 --delta 1e-6 -o r.parquet",
]


@pytest.mark.parametrize("command", DRAWING)
def test_an_explanation_with_a_ledger_says_what_is_spent_first(
    command: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --ledger it says that the ledger is spent first and how much; the ledger need not be there."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)
    facts = json.loads(run(*words, *LEDGER, "--json", "--explain").out)
    assert "budget.db is spent first: epsilon = 0.5, delta = 1e-06 is reserved" in facts["cost"]
    assert "'it' of 'country'" in facts["cost"]
    assert any(part.startswith("budget.db: ") for part in facts["writes"])
    assert "spent first" not in run(*words, "--explain").out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ledger-part", "country=it"), "need --ledger"),
        (("--ledger", "budget.db", "--ledger-part", "it"), "must be written as DIVISION=PART"),
    ],
)
def test_options_of_a_ledger_are_refused_as_by_the_command(run: Run, options: tuple[str, ...], message: str) -> None:
    """What the command would refuse of the ledger's options, its explanation refuses."""
    done = run("publish", "e.csv", "--key", "q", "--epsilon", "1", "--delta", "1e-6", *options, "--explain")
    assert done.status == 2 and message in done.err


def test_an_explanation_of_a_new_ledger_says_its_budget(run: Run) -> None:
    """Budget, rule and sources are in it; a budget of delta 0 is one."""
    done = run("ledger", "create", "b.db", "--epsilon", "1/2", "--delta", "0", "--source", "shop", "--explain")
    assert done.status == 0
    for part in ("epsilon = 0.5, delta = 0", "added up", "shop", "b.db"):
        assert part in done.out
    tight = ("--accounting", "tight", "--explain")
    assert "You state" in run("ledger", "create", "b.db", "--epsilon", 1, "--delta", "1e-6", *tight).out
    assert run("ledger", "create", "b.db", "--epsilon", "-1", "--delta", "0", "--explain").status == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--epsilon", "-1", "--delta", "1e-6"), "--epsilon must be a positive number, got -1"),
        (("--epsilon", "1"), "--delta is missing: mechanism 'weighted_sample' needs one"),
        (("--epsilon", "1", "--mechanism", "sparse"), "mechanism 'sparse' needs a universe"),
        (("--epsilon", "1", "--delta", "1e-6", "--mechanism", "sparse", "--universe", "ipv4"), "keeps delta = 0"),
        (
            ("--epsilon", "1", "--delta", "1e-6", "--mechanism", "odd"),
            "argument --mechanism: invalid choice: 'odd'",
        ),
        (("--epsilon", "1", "--delta", "1e-6", "--max-keys-per-unit", "2"), "--max-keys-per-unit needs a --unit"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(run: Run, options: tuple[str, ...], message: str) -> None:
    """An explanation refuses what the command would refuse before it reads."""
    done = run("publish", "events.csv", "--key", "query", *options, "--explain")
    assert done.status == 2 and message in done.err


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_has_help(path: str) -> None:
    """Every option and place of every command says what it is; every command has a description and two examples."""
    command = dict(leaf_commands(build_parser()))[path]
    for action in command._actions:
        assert action.help and len(action.help) > 8, f"{path} {action.dest}"
    names = {name for action in command._actions for name in action.option_strings}
    assert {"--json", "--explain", "--help"} <= names
    assert command.description and len(command.description) > 40
    assert sum(line.startswith(f"  dptally {path}") for line in (command.epilog or "").split("\n")) >= 2


def test_help_command(run: Run) -> None:
    """`dptally help COMMAND` prints what --help prints."""
    for words in (["publish"], ["sketch", "build"], []):
        assert run("help", *words).out == run(*words, "--help").out
    done = run("help", "nonsense")
    assert done.status == 2 and "there is no command 'nonsense'" in done.err
    assert json.loads(run("help", "plan", "--json").out)["command"] == "plan"


def test_manual_page(run: Run, tmp_path: Path) -> None:
    """The manual page names every command and option, and groff has nothing to say against it."""
    place = tmp_path / "dptally.1"
    assert run("man", "-o", place).status == 0
    page = place.read_text()
    assert run("man").out == page == json.loads(run("man", "--json").out)["page"]
    for path, command in leaf_commands(build_parser()):
        assert f'.SS "dptally {path}"'.replace("-", "\\-") in page
        for action in command._actions:
            assert "".join(action.option_strings[-1:]).replace("-", "\\-") in page
    done = run("man", "-o", place)
    assert done.status == 2 and "overwrite to replace it" in done.err
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    checked = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", str(place)],  # noqa: S607
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert checked.stderr == ""


def test_a_sketch_pays_for_each_of_its_units(run: Run) -> None:
    """Whether its units are rows or not is not known before it is read."""
    done = run("sketch", "publish", "s.sketch", *PRIVACY, "--explain")
    assert "once, for each unit of the sketch." in done.out and "each row" not in done.out
