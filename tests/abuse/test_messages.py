"""Federated messages that a node or a server made up: refused in one sentence, or read; never worse."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.abuse.limits import examples, refused_or_read
from tests.abuse.mutations import damaged, nasty_json
from tests.abuse.specimens import messages

NAMES = sorted(messages())
IN_JSON = [name for name in NAMES if messages()[name][0].startswith(b"{")]


@pytest.mark.parametrize("name", NAMES)
def test_specimens_are_valid(name: str) -> None:
    """What abuse starts from is read without complaint."""
    message, read = messages()[name]
    assert refused_or_read(read, message) is None


@pytest.mark.parametrize("name", NAMES)
@examples(60)
@given(data=st.data())
def test_damaged_bytes(name: str, data: st.DataObject) -> None:
    """Turned bits, cut ends and splices never lead to anything but our own errors."""
    message, read = messages()[name]
    refused_or_read(read, data.draw(damaged(message)))


@pytest.mark.parametrize("name", IN_JSON)
@examples(80)
@given(data=st.data())
def test_nasty_fields(name: str, data: st.DataObject) -> None:
    """Fields that are nasty, missing, unknown or there twice are refused, or do no harm."""
    message, read = messages()[name]
    text = data.draw(nasty_json(json.loads(message)))
    refused_or_read(read, text.encode("utf-8", "surrogatepass"))


@examples(30)
@given(data=st.data())
def test_ballots_count_once(data: st.DataObject) -> None:
    """Whatever a ballot holds, a server counts it or says why not."""
    message, read = messages()["ballot"]
    said = read(data.draw(st.one_of(damaged(message), st.binary(max_size=100))))
    assert said in ("counted", "malformed", "oversized", "late or foreign")
