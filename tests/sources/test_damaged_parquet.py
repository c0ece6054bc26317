"""Damaged and encrypted Parquet files: one sentence, no release with wrong counts, and never the end of the process."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dptally.errors import InvalidSource
from dptally.laws.sampling_schemes import Ppswor
from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.summaries import sample_keys

KEYS = [f"key {number % 5}" for number in range(1000)]

# Publishes each of the files once; with sampling, since that reads footers before rows.
PUBLISHING = """
import json, sys
import dptally

outcomes = []
for path in sys.argv[1:]:
    try:
        dptally.publish(path, key="k", epsilon=1, delta="1e-6", sampling=dptally.Ppswor("0.01"))
        outcomes.append("released")
    except dptally.DptallyError as error:
        outcomes.append(str(error))
print(json.dumps(outcomes))
"""


def published_in_a_process(*paths: Path) -> list[str]:
    """What became of each file, published in one process that must end by itself."""
    done = subprocess.run([sys.executable, "-c", PUBLISHING, *map(str, paths)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outcomes: list[str] = json.loads(done.stdout)
    return outcomes


def test_an_encrypted_column_with_a_readable_footer(tmp_path: Path) -> None:
    """A key column that cannot be decrypted is refused with one sentence; the process goes on."""
    encryption: Any = pytest.importorskip("pyarrow.parquet.encryption", reason="this Arrow cannot encrypt")

    class Keys(encryption.KmsClient):  # type: ignore[misc]
        """Keys that are wrapped by nothing."""

        def wrap_key(self, key: bytes, _: str) -> str:
            """A key as text."""
            return base64.b64encode(key).decode()

    settings = encryption.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["k"]}, plaintext_footer=True, double_wrapping=False
    )
    factory = encryption.CryptoFactory(lambda _: Keys())
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), settings)
    table = pa.table({"k": KEYS, "other": range(1000)})
    path = tmp_path / "encrypted.parquet"
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    (outcome,) = published_in_a_process(path)
    assert outcome == f"'{path}' has encrypted columns, which cannot be read; decrypt the file first."


def test_one_damaged_byte_of_a_footer(tmp_path: Path) -> None:
    """With any fourth byte of the footer changed, a file is published or refused, and the process goes on."""
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.table({"k": KEYS}), whole, store_schema=False)
    content = whole.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    damaged = []
    for place in range(footer, len(content), 4):
        changed = bytearray(content)
        changed[place] ^= 2
        damaged.append(tmp_path / f"{place}.parquet")
        damaged[-1].write_bytes(changed)
    outcomes = published_in_a_process(whole, *damaged)
    assert outcomes[0] == "released"
    assert sum(outcome.endswith("it may be damaged or incomplete.") for outcome in outcomes) > len(damaged) / 4


def test_a_row_group_without_its_dictionary(tmp_path: Path) -> None:
    """A row group whose dictionary page became a page of another kind is refused, not read with the one before."""
    path = tmp_path / "k.parquet"
    pq.write_table(pa.table({"k": KEYS}), path, row_group_size=10, compression="none")
    start = pq.read_metadata(path).row_group(50).column(0).dictionary_page_offset
    content = bytearray(path.read_bytes())
    assert content[start : start + 2] == b"\x15\x04"  # the first field of the page's header: it is a dictionary
    content[start + 1] = 2  # an index page, which readers may skip
    path.write_bytes(content)
    for seed in range(5):
        rows = open_rows(path, key="k", unit=None)
        with (
            pytest.raises(InvalidSource, match=r"could not be read to its end; it may be damaged or incomplete\.$"),
            sample_keys(rows, Ppswor("0.01"), bits=SeededBits(seed)) as sample,
        ):
            list(sample.batches())
