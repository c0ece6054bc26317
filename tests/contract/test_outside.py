"""A mechanism of another package: two files, found through an entry point, and everything works for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import dptally
from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.laws.finite import WHOLE, FiniteLaw
from dptally.laws.spec import Mechanism, Request, Spec
from dptally.laws.specs.copies import OneLaw
from dptally.mechanisms import independent_keys
from dptally.verifiers.guarantees import verify_table

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installed package with one module for each half, and its entry point."""
    place = tmp_path_factory.mktemp("site")
    (place / "toy_coin").mkdir()
    shutil.copy(HERE / "toy_law.py", place / "toy_coin" / "law.py")
    shutil.copy(HERE / "toy_draw.py", place / "toy_coin" / "drawing.py")
    facts = place / "toy_coin-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-coin\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[dptally.mechanisms]\ncoin = toy_coin.drawing:register\n")
    return place


def run(package: Path, place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, where the package is installed."""
    path = os.pathsep.join([str(package), str(Path(dptally.__file__).parents[1])])
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120, cwd=place,
                          env={**os.environ, "PYTHONPATH": path}, check=False)  # fmt: skip


USES = """
import json, dptally, polars as pl
from dptally.randomness import SeededBits

ledger = dptally.Ledger("l.db", epsilon=9, delta="0.5")
asked = {"key": "word", "epsilon": 1, "delta": "0.1", "mechanism": "coin"}
data = pl.DataFrame({"word": ["w%d" % (n % 400) for n in range(4000)]})
release = dptally.publish(data, ledger=ledger, **asked)
assert release.guarantee.mechanism == "coin" and release.law.stored_as == "CoinLaw", release
assert 130 < len(release) < 270, len(release)  # binomial(400, 1/2): 7 standard deviations
assert release.guarantee.record is not None
release.save("r.parquet")
back = dptally.load("r.parquet")
assert back.table().equals(release.table()) and back.verify() == release.certificate
assert back.sum().lower >= 0 and back.top(3).height == 3
planned = dptally.plan(epsilon=1, delta="0.1", mechanisms=["coin"])
assert planned.forecasts[0].mechanism == "coin"
seeded = [dptally.publish(data, randomness=SeededBits(1), **asked) for _ in "ab"]
assert seeded[0].table().equals(seeded[1].table())
"""


def test_everything_works_for_it(package: Path, tmp_path: Path) -> None:
    """Publish, pay, save, load, verify, plan, ask; from the shell: explain, verify, report, audit of its rows."""
    done = run(package, tmp_path, "-c", USES)
    assert done.returncode == 0, done.stderr
    (tmp_path / "d.csv").write_text("word\n" + "\n".join(f"w{n % 40}" for n in range(400)) + "\n")
    asked = ["publish", "d.csv", "--key", "word", "--epsilon", "1", "--delta", "0.1", "--mechanism", "coin"]
    for command in (
        [*asked, "--explain"],
        [*asked, "-o", "s.parquet"],
        ["verify", "r.parquet"],
        ["report", "r.parquet", "-o", "page.html"],
        ["top", "r.parquet", "--json"],
        ["ledger", "show", "l.db"],
        ["audit", "coin", "--exact", "--settings", "4"],
        ["audit", "coin", "--delta", "0.1", "--runs", "400", "-q"],
        ["plan", "--epsilon", "1", "--delta", "0.1", "--json"],
    ):
        done = run(package, tmp_path, "-m", "dptally", *command)
        assert done.returncode == 0, (command, done.stderr)
    assert "coin" in (tmp_path / "page.html").read_text()
    assert any(row["mechanism"] == "weighted_sample" for row in json.loads(done.stdout)["forecasts"])


@pytest.mark.parametrize("half", ["toy_law.py", "toy_draw.py"])
def test_the_guide_for_contributors_shows_it(half: str) -> None:
    """What CONTRIBUTING.md has as a worked example is what these tests install."""
    guide = HERE.parents[1] / "CONTRIBUTING.md"
    assert f"```python\n{(HERE / half).read_text()}```" in guide.read_text()


def test_without_the_package_it_is_unknown(package: Path, tmp_path: Path) -> None:
    """The name is refused in a sentence that lists the others; a file of it is not read by guessing."""
    words = ["publish", "d.csv", "--key", "k", "--epsilon", "1", "--delta", "0.1", "--mechanism", "coin"]
    done = run(tmp_path, tmp_path, "-m", "dptally", *words)
    assert done.returncode == 2 and "weighted_sample" in done.stderr


class TooLoose(FiniteLaw):
    """Reports every key for certain."""

    name: ClassVar[str] = "loose"
    stored_as: ClassVar[str] = "TooLoose"
    largest = 1

    def masses(self, count: int) -> tuple[int, int]:
        """Always reported."""
        del count
        return 0, WHOLE


@dataclass(frozen=True)
class Loose(Mechanism):
    """A mechanism of TooLoose."""

    name: ClassVar[str] = "loose"
    title: ClassVar[str] = "Loose"
    summary: ClassVar[str] = "every key"

    def spec(self, request: Request) -> Spec:
        """Certain to be refused."""
        return OneLaw(self.name, TooLoose(request.epsilon, self._checked(request)), request)


def test_our_verifiers_check_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law that does not keep what it states is refused before anything is read; so is a forged certificate."""
    registered(monkeypatch, Loose, TooLoose)
    with pytest.raises(PrivacyViolation, match="exceeds its delta"):
        dptally.publish({"a": 5}, epsilon=1, delta="0.1", mechanism="loose")
    honest = TooLoose(1, "0.1")
    monkeypatch.setattr(TooLoose, "certify", lambda self: forged(self))
    release = dptally.publish({"a": 5}, epsilon=1, delta="0.1", mechanism="loose")
    assert honest.rows == release.law.rows
    with pytest.raises(PrivacyViolation):
        release.verify()


def test_a_law_of_ours_is_not_verified_under_a_name_from_outside() -> None:
    """A guarantee that names no mechanism of ours cannot lean on a law of ours, whose rules it would escape."""
    release = dptally.publish({"a": 5000}, epsilon=1, delta="1e-6", mechanism="stability")
    forged_guarantee = replace(release.guarantee, mechanism="coin")
    with pytest.raises(PrivacyViolation, match="does not draw from this law"):
        verify_table(forged_guarantee, release.law, rows=1)


def test_a_verifier_of_its_own_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law that is not given row by row is certified by its package, and every release says so."""

    class Opaque(TooLoose):
        """A law with a verifier of its own."""

        stored_as: ClassVar[str] = "Opaque"

        def certify(self) -> Any:
            """Whatever it says."""
            return forged(self)

    @dataclass(frozen=True)
    class Trusting(Loose):
        """A mechanism of it."""

        name: ClassVar[str] = "trusting"

        def spec(self, request: Request) -> Spec:
            """Its law."""
            return OneLaw(self.name, Opaque(request.epsilon, self._checked(request)), request)

    registered(monkeypatch, Trusting, Opaque)
    assert Opaque.certified_by == "tests"  # it replaces what our verifier would rely on
    monkeypatch.setattr(Opaque, "certified_by", "elsewhere")
    release = dptally.publish({"a": 5}, epsilon=1, delta="0.1", mechanism="trusting")
    assert release.certificate.judge == "certified by elsewhere"
    assert release.verify().judge == "certified by elsewhere"
    assert "certified by elsewhere" in str(release.certificate)


def test_no_name_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of ours, of others, and of laws are taken."""
    registered(monkeypatch, Loose, TooLoose)

    @dataclass(frozen=True)
    class Sparse(Loose):
        """A name of ours."""

        name: ClassVar[str] = "sparse"

    @dataclass(frozen=True)
    class Again(Loose):
        """A name that is registered."""

    class Stability(TooLoose):
        """A law's name of ours."""

        stored_as: ClassVar[str] = "Stability"

    @dataclass(frozen=True)
    class New(Loose):
        """A new one."""

        name: ClassVar[str] = "new"

    for mechanism, law in ((Sparse, TooLoose), (Again, TooLoose), (New, Stability)):
        with pytest.raises(InvalidParameter, match="cannot be replaced"):
            dptally.register(mechanism, law=law, draw=independent_keys.draw)
    with pytest.raises(InvalidParameter, match=r"subclass of dptally\.laws\.spec\.Mechanism"):
        dptally.register(object, law=TooLoose, draw=independent_keys.draw)  # type: ignore[arg-type]


def forged(law: FiniteLaw) -> Any:
    """A certificate that says that all is well."""
    from dptally.verifiers.tables import certify_rows

    fine = [[WHOLE], [WHOLE]]
    return certify_rows(fine, epsilon=law.epsilon, delta=law.delta)


def registered(monkeypatch: pytest.MonkeyPatch, mechanism: type[Mechanism], law: type[FiniteLaw]) -> None:
    """Registered for one test."""
    from dptally.laws import registry
    from dptally.mechanisms import registry as draws

    for place in ((registry, "_OUTSIDE"), (registry, "_OUTSIDE_LAWS"), (draws, "_OUTSIDE")):
        monkeypatch.setattr(*place, {})
    dptally.register(mechanism, law=law, draw=independent_keys.draw)
