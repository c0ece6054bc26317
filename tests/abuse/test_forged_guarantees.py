"""Guarantees that somebody changed: whatever still verifies promises no more than the law gives.

Fields are taken from the dataclass and from the files, not from a list: a new one without a rule fails here. All
single changes are tried and a fixed choice of pairs; DPTALLY_ABUSE=20 tries 20 times as many.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import DptallyError, PrivacyViolation
from dptally.laws.registry import law_from_facts
from dptally.privacy.guarantee import CONDITIONS, Guarantee
from dptally.releases.release_file import metadata
from dptally.verifiers.guarantees import DERIVED, NEUTRAL, WORD_OF_THE_PUBLISHER, verify_rounds
from dptally.verifiers.tables import Certificate
from tests.abuse.forgeries import (
    COUNTS,
    KINDS,
    RULES,
    changed,
    evil_values,
    genuine,
    implied,
    kinds,
    mutations,
    release_law,
)
from tests.cli.conftest import Run, run
from tests.releases.version_1 import NEUTRAL_TEXTS, metadata_1, save_1

__all__ = ["run"]  # the fixture

PAIRS = 4 * int(os.environ.get("DPTALLY_ABUSE", "1"))  # of values, for each pair of fields


@cache
def _same_law(packed: str) -> Any:
    """A law that finds out about itself once."""
    law = law_from_facts(json.loads(packed))
    found = law.certify()
    law.certify = lambda: found  # type: ignore[method-assign]
    return law


_verify_rounds_once = cache(verify_rounds)


@pytest.fixture(autouse=True)
def quick_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of forgeries have the same law: its table is verified once."""
    monkeypatch.setattr("dptally.laws.prefix_plans.verify_rounds", _verify_rounds_once)
    for module in ("table_release", "range_release"):
        monkeypatch.setattr(
            f"dptally.releases.{module}.law_from_facts", lambda facts: _same_law(json.dumps(facts, sort_keys=True))
        )


def verifies(release: Any, promise: Guarantee) -> bool:
    """Whether a release with another guarantee still verifies."""
    try:
        release.stating(promise).verify()
    except PrivacyViolation as refusal:
        assert str(refusal).endswith(".") and "\n" not in str(refusal)
        return False
    return True


def test_every_field_has_a_rule() -> None:
    """A new field of a guarantee needs a rule in the verifier, and one in this test."""
    names = set(kinds())
    assert names == set(RULES)
    assert names == {*DERIVED, *NEUTRAL, *WORD_OF_THE_PUBLISHER}
    assert CONDITIONS == NEUTRAL


@pytest.mark.parametrize("kind", ["weighted_sample", "sketch", "compact", "ranges_dense", "tree"])
def test_a_field_without_a_rule_is_refused(kind: str) -> None:
    """A guarantee with a field that the verifier does not know is not verified, whatever the field says."""

    @dataclass(frozen=True)
    class Larger(Guarantee):
        protects_everything: bool = False

    release = genuine(kind)
    true = release.guarantee
    assert not verifies(release, Larger(**vars(true)))
    for named in ((*true.conditions, ("protects_everything", 1)), (("sketches", 1), ("sketches", 1))):
        assert not verifies(release, replace(true, conditions=named))


@pytest.mark.parametrize("kind", KINDS)
def test_one_changed_field(kind: str) -> None:
    """Every field, every evil value: what verifies promises no more than the law gives."""
    release = genuine(kind)
    true, refused = release.guarantee, 0
    assert verifies(release, true) and not implied(true, true, release)
    for name, values in mutations(true).items():
        for value in values:
            forged = changed(true, **{name: value})
            if verifies(release, forged):
                assert not implied(true, forged, release), (name, value)
            else:
                refused += 1
    assert refused > 30


@pytest.mark.parametrize("kind", KINDS)
def test_two_changed_fields(kind: str) -> None:
    """Every pair of fields: one forged field does not make another one pass that promises more."""
    release = genuine(kind)
    true, start = release.guarantee, crc32(kind.encode())
    for (first, ones), (second, others) in combinations(mutations(true).items(), 2):
        every = [(one, other) for one in ones for other in others]
        for one, other in (every[(start + 37 * place) % len(every)] for place in range(min(PAIRS, len(every)))):
            forged = changed(true, **{first: one, second: other})
            if verifies(release, forged):
                assert not implied(true, forged, release), (first, one, second, other)


DIRECTED: Sequence[dict[str, Any]] = [
    {"max_keys_per_unit": 0, "epsilon": Fraction(1, 100), "delta": Fraction(0)},
    {"max_keys_per_unit": 0},
    {"elements_per_unit": 1000},
    {"sketch_capacity": 1, "max_keys_per_unit": 1000},
    {"sketch_capacity": 1, "max_keys_per_unit": 1000, "mechanism": "misra_gries", "unit": "user"},
    {"sketch_capacity": 1, "max_keys_per_unit": 1},
    {"max_keys_per_unit": 1000, "unit": "user"},
    {"neighbours": "replace one unit"},
    {"neighbours": "add or remove any number of units"},
    {"most_distinct_keys": None, "sketches": 0},
    {"spent_on_size": Fraction(-30), "epsilon": Fraction(1, 100)},
    {"spent_on_shortfall": Fraction(-30), "epsilon": Fraction(1, 100)},
    {"most_distinct_keys": 1},
]


@pytest.mark.parametrize("kind", KINDS)
def test_known_forgeries(kind: str) -> None:
    """Forgeries that once verified promise nothing that is not true, and most are refused."""
    release = genuine(kind)
    true = release.guarantee
    for changes in DIRECTED:
        forged = changed(true, **changes)
        if forged != true and verifies(release, forged):
            assert not implied(true, forged, release), changes


# ---- files ----

_WORD = {"unit", "private", "record"}
HARMLESS: dict[str, str] = {
    "law.size": "how large a universe is decides bounds; noise, and so the promise, are the same for each key",
    "law.keep": "how many keys are released is decided after the noise",
    "law.universe": "a name; keys that are not of a universe of that name are refused",
    "law.mixing": "how often something random is released instead, which only hides more",
    "shortfall.reported": "a released number",
    "shortfall.scale": "noise that is larger than stated; smaller is refused",
    "value": "the name of a column",
    "grid.kind": "how bins are written",
    "grid.start": "where bins begin",
    "grid.end": "where bins end",
    "grid.width": "how wide bins are",
    "grid.outside": "what was done with values outside",
    "grid.bins": "refused unless the levels stay the same",
    "universe": "a name; the size must belong to it",
    "universe_size": "refused unless it belongs to the name",
    "law.centred": "where keys are sampled, or come without values, tables are the same",
    "beyond_capacity": "with a condition on the data, the promise is a smaller one",
    "plan.composition": "a single round is verified in the same way by all of them",
    "plan.domain": "how prefixes are written",
    "plan.lengths": "refused unless there are as many, and nodes of such lengths",
    "guarantee.sketches": "see the rule for it",
}


FIRST_OF_THEIR_LAW = (
    "weighted_sample", "sampled", "keys_only", "stability", "gaussian", "sample_and_threshold", "dense", "sparse",
    "compact", "compact_subsampled", "sketch", "ranges_dense",
)  # fmt: skip
_LAW_TEXTS = 2  # every other law is built, which takes its time


def parsers(release: Any, version: int, place: Path) -> tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]:
    """The metadata of a release in a version of the format, and how it is read back with other metadata."""
    if version == 2:
        rows = release.stored_rows()
        return json.loads(json.dumps(metadata(release))), lambda facts: type(release).from_facts(rows, facts)

    def parse(facts: dict[str, Any]) -> Any:
        save_1(release, place, facts)
        return dptally.load(place)

    return metadata_1(release), parse


def leaves(facts: dict[str, Any], above: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
    """Every field of nested objects: its whole name, its holder, its name."""
    for name, part in facts.items():
        if isinstance(part, dict):
            yield from leaves(part, f"{above}{name}.")
        else:
            yield f"{above}{name}", facts, name


def forged_texts(name: str, true: Any) -> list[Any]:
    """What to write into a field of a file."""
    types = {**{field.name: str(field.type) for field in fields(Certificate)}, **kinds()}
    if types.get(name) == "Fraction":
        number = Fraction(true)
        return [str(value) for value in (*evil_values(name, "Fraction", number), number * 2, number / 2)]
    if isinstance(true, bool):
        return [not true, None, 1]
    if isinstance(true, int):
        return [true + 1, max(0, true - 1), 0, -1, 1, 2, 1000, 2**62, None, str(true)]
    if isinstance(true, list):
        return [[], true[:-1], [*true, *true], true[::-1]]
    if true is None:
        return [0, 1, "x", "1"]
    try:
        return [str(Fraction(true) * 2), str(Fraction(true) / 2), "0", "-1", "x"]
    except ValueError:
        return ["", "x", None, "ppswor:0.8", "misra_gries", "weighted_sample", "subsample", "refuse", "basic"]


OLD = ("weighted_sample", "sketch_summed", "compact", "compact_subsampled", "ranges_dense", "tree")


@pytest.mark.parametrize(("kind", "version"), [*((kind, 2) for kind in KINDS), *((kind, 1) for kind in OLD)])
def test_one_changed_field_of_a_file(kind: str, version: int, tmp_path: Path) -> None:
    """Every field of the metadata: refused, or the law's table and its guarantee are what they were, or less."""
    release = genuine(kind)
    plain, parse = parsers(release, version, tmp_path / "forged")
    if "guarantee" in plain:  # also what is left out where it is neutral
        plain["guarantee"] = {**NEUTRAL_TEXTS, **plain["guarantee"]}
    parse(copy.deepcopy(plain)).verify()
    survivors, surprises = 0, []
    laws_too = kind in FIRST_OF_THEIR_LAW
    for whole, _, _ in list(leaves(plain)):
        if whole.startswith("law.") and not laws_too:
            continue
        if whole in ("format_version", "kind"):  # which `test_unknown_versions` is about
            continue
        altered = copy.deepcopy(plain)
        holder, name = next((held, last) for found, held, last in leaves(altered) if found == whole)
        true = holder[name]
        texts = forged_texts(name, true)
        for text in texts[: _LAW_TEXTS if whole.startswith("law.") else None]:
            holder[name] = text
            try:
                forged = parse(copy.deepcopy(altered))
                forged.verify()
            except (DptallyError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
                continue  # `intact` makes one sentence of them when a file is read
            except pa.ArrowException:
                continue
            if str(text) == str(true):
                continue
            survivors += 1
            expected = whole.startswith("guarantee.") or name in _WORD or whole in HARMLESS
            same = _table(forged) == _table(release)
            if version == 1 and isinstance(forged, dptally.CompactRelease):
                # No table is named in the file: the law answers for itself.
                expected, same = expected or whole.startswith("law."), True
            if not (expected and same) or implied(release.guarantee, forged.guarantee, forged):
                surprises.append((whole, text))
    assert not surprises
    assert survivors  # a word of the publisher at least


def _table(release: Any) -> str:
    return str(release.certificate.table_sha256)


def forge(path: Path, changed: dict[str, Any]) -> None:
    """Change fields of the guarantee in a Parquet file, as anyone can."""
    table = pq.read_table(path)
    facts = json.loads(table.schema.metadata[b"dptally"])
    facts["guarantee"].update(changed)
    copies = changed.get("max_keys_per_unit")
    if copies is not None:
        facts["certificate"].update(copies=copies)
    if "epsilon" in changed:
        facts["certificate"].update(total_epsilon=changed["epsilon"], total_delta="0")
    pq.write_table(table.replace_schema_metadata({b"dptally": json.dumps(facts).encode()}), path)


@pytest.mark.parametrize("mechanism", ["weighted_sample", "sample_and_threshold", "gaussian", "dense", "sparse"])
def test_no_keys_at_all(mechanism: str, tmp_path: Path, run: Run) -> None:
    """A law of epsilon 30 was once verified as epsilon 0.01, delta 0, for units with no keys."""
    pure: dict[str, Any] = {"universe": "integers:0..20", "bound": 1000}
    options = pure if mechanism in ("dense", "sparse") else {"delta": "1e-6"}
    source: Any = {5: 400, 9: 300} if pure is options else COUNTS
    path = tmp_path / "forged.parquet"
    dptally.publish(source, epsilon=30, mechanism=mechanism, **options).save(path)
    assert run("verify", path).status == 0
    forge(path, {"max_keys_per_unit": 0, "epsilon": "1/100", "delta": "0"})
    done = run("verify", path)
    assert done.status == 1 and done.out == "" and done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("weighted_sample", {"elements_per_unit": 1000}),
        ("ranges_dense", {"elements_per_unit": 1000}),
        ("ranges_dense", {"max_keys_per_unit": 1000, "unit": "user"}),
        ("ranges_dense", {"neighbours": "add or remove all units"}),
        ("weighted_sample_units", {"sketch_capacity": 1, "max_keys_per_unit": 1000}),
        ("weighted_sample", {"neighbours": "add or remove all units"}),
        ("weighted_sample", {"most_distinct_keys": 3}),
        ("sketch", {"sketches": 2}),
        ("sketch_merged", {"elements_per_unit": 5}),
    ],
)
def test_forged_files(kind: str, changed: dict[str, Any], tmp_path: Path, run: Run) -> None:
    """Through the file and the command: a field that the mechanism does not use must have its neutral value."""
    path = tmp_path / "forged.parquet"
    genuine(kind).save(path)
    assert run("verify", path).status == 0
    forge(path, changed)
    done = run("verify", path)
    assert done.status == 1 and done.out == ""


@pytest.mark.parametrize("changed", [{"elements_per_unit": 1000}, {"neighbours": "any"}, {"sketch_capacity": 1}])
def test_forged_compact_files(changed: dict[str, Any], tmp_path: Path, run: Run) -> None:
    """The same of a compact release, in both versions of the format."""
    release = genuine("compact")
    for version in (1, 2):
        path = tmp_path / f"forged.{version}"
        facts, parse = parsers(release, version, path)
        release.save(path)
        assert run("verify", path).status == 0
        facts["guarantee"].update(changed)
        with pytest.raises((DptallyError, ValueError)):
            parse(facts).verify()
        if version == 1:
            save_1(release, path, facts)
        else:
            forge(path, changed)
        assert run("verify", path).status == 1


def test_all_laws_are_there() -> None:
    """The kinds above are drawn from every law that a release may have."""
    from dptally.laws.registry import LAWS

    assert {release_law(genuine(kind)) for kind in KINDS} >= {*LAWS, "FieldGeometric"}


def test_combined_releases() -> None:
    """What is stated about several releases is derived from them again, and each is verified."""
    first, second = genuine("weighted_sample"), genuine("stability")
    for units, epsilon in (("disjoint", 1), ("shared", 2)):
        combined = dptally.combine([first, second], units=units)  # type: ignore[arg-type]
        assert combined.epsilon == epsilon and len(combined.verify()) == 2
        for changes in ({"epsilon": Fraction(1, 2)}, {"delta": Fraction(0)}, {"releases": (first, first)}):
            with pytest.raises(PrivacyViolation, match="verification failed"):
                replace(combined, **changes).verify()
    with pytest.raises(PrivacyViolation):
        replace(dptally.combine([first, second], units="shared"), units="other").verify()  # type: ignore[arg-type]
