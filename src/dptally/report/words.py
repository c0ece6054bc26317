"""The guarantee in words for people who have never heard of differential privacy, and where it comes from."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import dptally
from dptally.labels import key_label
from dptally.laws.registry import references_of
from dptally.report.colours import own_file
from dptally.report.contents import Asked, Report, Section, Tile, command, facts, paragraph
from dptally.report.markup import Markup, fill, join, listed, tag
from dptally.verifiers.tables import Certificate

if TYPE_CHECKING:
    from dptally.privacy.guarantee import Guarantee
    from dptally.releases.base import Release
    from dptally.report.drawing import Chart
    from dptally.verifiers.compact import CompactCertificate

_LONGEST_NAME = 60
_WELL, _WEAKLY = 0.75, 0.95  # chances of a right guess, up to which the promise is called good, or limited
_SOURCES = {
    "CGSS21": "E. Cohen, O. Geri, T. Sarlós, U. Stemmer: Differentially Private Weighted Sampling. AISTATS 2021.",
    "LT25": (
        "C. J. Lebeda, J. Tětek: Better Differentially Private Approximate Histograms and Heavy Hitters using the "
        "Misra-Gries Sketch. 2025."
    ),
    "BV19": "V. Balcer, S. Vadhan: Differential Privacy on Finite Computers. J. Privacy and Confidentiality, 2019.",
    "BC22": (
        "A. Bharadwaj, G. Cormode: Sample-and-threshold differential privacy: Histograms and applications. "
        "AISTATS 2022."
    ),
    "WKZK24": (
        "A. Wilkins, D. Kifer, D. Zhang, B. Karrer: Exact Privacy Analysis of the Gaussian Sparse Histogram "
        "Mechanism. 2024."
    ),
    "HM26": "C. Harrison, P. Manurangsi: Optimal partition selection with Rényi differential privacy. 2026.",
    "SDH23": (
        "M. Swanberg, D. Desfontaines, S. Haney: DP-SIPS: A simpler, more scalable mechanism for differentially "
        "private partition selection. PoPETs 2023."
    ),
    "KOV15": "P. Kairouz, S. Oh, P. Viswanath: The Composition Theorem for Differential Privacy. ICML 2015.",
}


def number(amount: float) -> str:
    """A number in words and tiles: short, and exact where short numbers are.

    >>> number(1e-6), number(0.1), number(12345)
    ('1e-6', '0.1', '12,345')
    """
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.6g}".replace("e-0", "e-")


def percent(share: float, *, up: bool = False) -> str:
    """A share in percent; rounded up, where it is an upper bound that must not look smaller than it is."""
    found = 100 * share
    return f"{math.ceil(10 * found - 1e-9) / 10:.1f} %" if up else f"{found:.6g} %"


def page_about(
    release: Release,
    asked: Asked,
    *,
    heading: str,
    summary: str,
    tiles: Sequence[Tile],
    sections: Sequence[Section],
    charts: Sequence[Chart],
) -> Report:
    """The page of a release of any kind: its guarantee first, how it was verified and how to cite it last.

    Epsilon and delta go after the first tile; charts are all those of the sections.
    """
    guarantee, certificate = release.guarantee, release.certificate
    return Report(
        heading,
        summary,
        None if guarantee.private else str(guarantee),
        (*tiles[:1], *_guarantee_tiles(guarantee), *tiles[1:]),
        (
            _guarantee_section(guarantee),
            *sections,
            _certificate_section(certificate, asked.file_name),
            _citation_section(guarantee, certificate, heading, asked.fingerprint),
        ),
        tuple(charts),
    )


def _guarantee_tiles(guarantee: Guarantee) -> tuple[Tile, ...]:
    if not guarantee.private:
        return (("none", "is the guarantee"),)
    return (
        (number(float(guarantee.epsilon)), "epsilon: what one unit can change"),
        (number(float(guarantee.delta)), "delta: chance of an exception" if guarantee.delta else "delta"),
    )


def _guarantee_section(guarantee: Guarantee) -> Section:
    """The guarantee, first in plain words, then in the words of the definition."""
    if not guarantee.private:
        body = paragraph("There is no guarantee. The release was sampled from a seed, so that a test can repeat it.")
        return Section("guarantee", "Guarantee", body)
    unit = "row" if guarantee.elements_per_unit == 1 else "unit"
    if guarantee.unit is not None:
        unit = f"“{key_label(guarantee.unit, longest=_LONGEST_NAME)}”"
    epsilon, delta = float(guarantee.epsilon), float(guarantee.delta)
    ratio = math.exp(min(epsilon, 700.0))
    guess = min(1.0, (ratio + delta) / (ratio + 1))
    caught = min(1.0, 0.05 * ratio + delta, 1 - (1 - delta - 0.05) / ratio)
    # Conditions are part of the sentence, and must not be folded away.
    conditional = guarantee.mechanism == "sanitized_sample" or guarantee.most_distinct_keys is not None
    condition = "All of this holds under a condition, which the definition below states."
    summary = tag("summary", "The same in the words of the definition")
    body = fill(
        own_file("guarantee.html"),
        lead=_lead(guess, unit),
        unit=unit,
        guess=percent(guess, up=True),
        caught=percent(caught, up=True),
        condition=tag("li", condition) if conditional else None,
        definition=tag("details", summary, paragraph(str(guarantee)), open=conditional),
    )
    return Section("guarantee", "Guarantee", body)


def _lead(guess: float, unit: str) -> str:
    """The guarantee in a sentence, no stronger than it is."""
    if guess <= _WELL:
        told = f"Nobody can tell well from this release whether any one {unit} was in the data"
        return f"{told}, whatever they know already."
    if guess <= _WEAKLY:
        return f"This release limits how well anybody can tell whether any one {unit} was in the data."
    return f"This release protects any one {unit} weakly: see how much can be told."


def _certificate_section(certificate: Certificate | CompactCertificate, file_name: str | None) -> Section:
    """How the guarantee was verified, with the numbers of the verifier."""
    rows: list[tuple[str, str | Markup]] = []
    if isinstance(certificate, Certificate):
        if certificate.worst_delta:
            found = f"{float(certificate.worst_delta):.9g}, where {float(certificate.delta):.9g} is allowed"
            rows.append(("Largest divergence found", found))
        ratio, checked = certificate.worst_ratio, certificate.rows_checked
        if certificate.copies > 1:
            total = f"epsilon {number(float(certificate.total_epsilon))}, delta {float(certificate.total_delta):.6g}"
            rows.append((f"For {certificate.copies:,} together", total))
    else:
        ratio, checked = certificate.largest_ratio, certificate.ratios_checked
    if ratio:
        rows.append(("Largest ratio of probabilities", f"{float(ratio):.9g}"))
    rows.append(("Comparisons", f"{checked:,}"))
    rows.append(("SHA-256 of the table", tag("code", certificate.table_sha256, class_="hash")))
    body = fill(
        own_file("certificate.html"),
        certificate=str(certificate),
        facts=facts(rows),
        command=command(f"dptally verify {shell_word(file_name or 'FILE')}"),
    )
    return Section("certificate", "Verification", body)


def shell_word(text: str) -> str:
    """A word of a command line, quoted for a shell: in double quotes where those are enough, since they read better.

    >>> print(shell_word("release.parquet"), shell_word("word LIKE 'a%'"))
    release.parquet "word LIKE 'a%'"
    """
    quoted = shlex.quote(text)
    return f'"{text}"' if "'" in text and not set(text) & set('"$`\\!') else quoted


def _citation_section(
    guarantee: Guarantee, certificate: Certificate | CompactCertificate, title: str, fingerprint: str | None
) -> Section:
    epsilon, delta = number(float(guarantee.epsilon)), number(float(guarantee.delta))
    promise = f"({epsilon}, {delta})-differentially private" if guarantee.private else "not private (seeded)"
    name = f"{title}. Release of keys and counts, {promise}, made with dptally {dptally.__version__}"
    marks = [] if fingerprint is None else [f"file SHA-256 {fingerprint}"]
    marks.append(f"certificate {certificate.table_sha256[:16]}")
    keys = list(references_of(guarantee.mechanism))
    if guarantee.max_keys_per_unit > 1 and guarantee.delta and "KOV15" not in keys:
        keys.append("KOV15")
    body = join(
        paragraph("Name what was released, the promise and the version, so that others can tell what they see:"),
        tag("blockquote", f"{name}; {', '.join(marks)}."),
        [paragraph("The method comes from:"), listed(*(_SOURCES[key] for key in keys))] if keys else None,
    )
    return Section("cite", "How to cite", body)
