"""Errors of the library in the words of the shell: options instead of arguments of Python."""

from __future__ import annotations

import re

__all__ = ["in_shell_words"]

# What the library says, as a pattern, and what to say at the shell. Whole phrases, so that no name of a file or of a
# column is taken for one.
_PHRASES = {
    r"; say overwrite to replace it\.": "; say --overwrite to replace it.",
    r"; give format='csv', 'tsv', 'jsonl' or 'parquet'\.": "; give --format csv, tsv, jsonl or parquet.",
    r", or account\(unit=\.\.\.\) if both mean": ", or --ledger-unit if both mean",
    r"; give epsilon and delta to make a new ledger\.": "; make it with dptally ledger create.",
    r"such as dptally\.Ppswor\('0\.01'\)": "such as ppswor:0.01",
    r"such as dptally\.Ppswor\(rate\)": "such as ppswor:RATE",
    r"; raise memory_limit\.": "; raise --memory-limit.",
    r"^max_keys_per_unit needs a unit:": "--max-keys-per-unit needs --unit:",
    r"^epsilon is missing; leave it out only with frequency and probability\.": (
        "--epsilon is missing; leave it out only with --need, such as --need 30:95%."
    ),
    r"^scheme must say at which rate": "--sampling must say at which rate",
    r"always releases values; leave values out\.": "always releases values; leave --keys-only out.",
    r"reports values; use values=True\.": "reports values; leave --keys-only out.",
    r"\bor kind='(\w+)'\.": r"or --kind \1.",
    r"; use kind='(\w+)'": r"; use --kind \1",
    r"choose fewer levels or composition='exact'\.": "choose fewer levels or --composition exact.",
}
_OPTIONS = "max_keys_per_unit|memory_limit|strict_time|asked_for|elements_per_unit"  # named by their first words


def in_shell_words(text: str) -> str:
    """An error of the library as somebody at the shell can follow it; other text as it is.

    >>> in_shell_words("release.parquet exists; say overwrite to replace it.")
    'release.parquet exists; say --overwrite to replace it.'
    """
    for pattern, words in _PHRASES.items():
        text = re.sub(pattern, words, text)
    return re.sub(rf"^({_OPTIONS})\b", lambda found: f"--{found[0].replace('_', '-')}", text)
