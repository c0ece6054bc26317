"""Release, sketch and state files that somebody damaged or made up: refused in one sentence, or read; never worse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptally.errors import UnreadableRelease
from tests.abuse.limits import examples, refused_or_read
from tests.abuse.mutations import damaged, nasty_json
from tests.abuse.specimens import Specimen, files, metadata, with_checksum, with_metadata

NAMES = sorted(files())
WITH_JSON = [name for name in NAMES if not name.startswith("sketch_") or name == "sketch_release"]
WITH_CHECKSUM = [name for name in NAMES if files()[name].suffix in (".sketch", ".compact")]


def refused_or_read_as_file(specimen: Specimen, content: bytes, directory: Path) -> Exception | None:
    """Write the bytes, read them, and use what was read."""
    path = directory / f"abused{specimen.suffix}"
    path.write_bytes(content)
    return refused_or_read(specimen.read, path)


@pytest.mark.parametrize("name", NAMES)
def test_specimens_are_valid(name: str, tmp_path: Path) -> None:
    """What abuse starts from is read without complaint."""
    assert refused_or_read_as_file(files()[name], files()[name].packed, tmp_path) is None


@pytest.mark.parametrize("name", NAMES)
@examples(25)
@given(data=st.data())
def test_damaged_bytes(name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Turned bits, cut ends and splices never lead to anything but our own errors."""
    specimen = files()[name]
    refused_or_read_as_file(specimen, data.draw(damaged(specimen.packed)), tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("name", WITH_CHECKSUM)
@examples(60)
@given(data=st.data())
def test_damage_with_a_right_checksum(name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A checksum that fits the damage, as malice would make it, does not help it either."""
    specimen = files()[name]
    content = with_checksum(data.draw(damaged(specimen.packed[:-32])))
    refused_or_read_as_file(specimen, content, tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("name", WITH_JSON)
@examples(60)
@given(data=st.data())
def test_nasty_metadata(name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Fields that are nasty, missing, unknown or there twice are refused, or do no harm."""
    specimen = files()[name]
    content = with_metadata(specimen, data.draw(nasty_json(metadata(specimen))))
    refused_or_read_as_file(specimen, content, tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("name", WITH_JSON)
@pytest.mark.parametrize("text", ["[" * 10**6, "{}", "[]", "null", "", "\x00", '{"format_version": 1e400}', "é\udc80"])
def test_other_metadata(name: str, text: str, tmp_path: Path) -> None:
    """JSON that is no such object, however deep, is refused."""
    assert refused_or_read_as_file(files()[name], with_metadata(files()[name], text), tmp_path) is not None


@pytest.mark.parametrize("name", [name for name in WITH_JSON if files()[name].metadata_key])
@pytest.mark.parametrize("version", [0, 3, -1, "1", None, [1], 10**400, 1.5])
def test_unknown_versions(name: str, version: object, tmp_path: Path) -> None:
    """A version that this dptally does not know is named in the refusal."""
    specimen = files()[name]
    text = json.dumps({**metadata(specimen), "format_version": version})
    refusal = refused_or_read_as_file(specimen, with_metadata(specimen, text), tmp_path)
    assert isinstance(refusal, UnreadableRelease) and "format version" in str(refusal)
