"""The command line: parse, call the library, print.

What every command keeps to:

- What was asked for goes to standard output; progress, remarks and errors go to standard error.
- An error is one sentence that starts with ``dptally: ``. Exit status 2: a request that cannot be met; 1: something
  failed; 130: interrupted (143: by SIGTERM). A reader that stops early (``| head``) is not an error, nor is a signal
  that comes when what was asked for is written.
- Files that are written are tried before anything is spent, and are never files that are read; see
  `dptally.cli.outputs`.
- No data of the input appears in an error: the text of an unexpected exception is shown only with DPTALLY_DEBUG=1.
- ``--json`` prints one JSON value. Numbers a guarantee depends on are exact, as strings such as ``"1/1000000"``; floats
  beside them are named ``..._float``. Rows are objects with the key column(s), `value`, `estimate`, `lower`, `upper`
  (null where a release has no values). What each command prints is in docs/reference/command-line.md.
- ``--explain`` says what would be done and does nothing; see `dptally.cli.explain`.
- Modules that cost time are imported by the command that needs them, never before.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence

from dptally.cli.commands import build_parser
from dptally.cli.explain import explain
from dptally.cli.outputs import check_files, open_closed_streams, refuse_nowhere
from dptally.cli.parser import Parser
from dptally.cli.signals import complete, end_in_order, signal_behind
from dptally.errors import DptallyError, InvalidParameter
from dptally.labels import printable, without_credentials
from dptally.ledger.paying import spent_by

_BAD_REQUEST, _FAILED = 2, 1
_LONGEST = 2000  # characters of an error


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, of these arguments or of those of the process, and return the exit status."""
    nowhere_to_print = open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a key the terminal cannot show is no reason to fail
    words = sys.argv[1:] if argv is None else list(argv)
    arguments = None
    with end_in_order(to_the_end=argv is None) as heard:
        try:
            arguments = build_parser(words[0] if words else None).parse_args(words)
            if arguments.explain:
                explain(arguments)
            else:
                if nowhere_to_print:
                    refuse_nowhere(arguments)
                check_files(arguments)
                arguments.run(arguments)
            sys.stdout.flush()
        except (SystemExit, BrokenPipeError):  # --help and --version; Rich exits when its reader is gone
            _flush_or_drop()
        except BaseException as error:  # also the panics of the engines, which are no Exceptions
            number = signal_behind(error) or heard()  # an engine may drop the interruption
            return _report(error, number, None if arguments is None else arguments.parser)
    return 0


def _report(error: BaseException, number: int | None, parser: Parser | None) -> int:
    """Say in one sentence what went wrong, or that a signal of this number came, and return the exit status."""
    status = _FAILED
    if number is not None:
        status, sentence = 128 + number, "interrupted."
    elif isinstance(error, DptallyError):
        status = _BAD_REQUEST if isinstance(error, InvalidParameter) else _FAILED
        sentence = str(error) if parser is None else error.worded(parser.written)
    elif isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        sentence = f"{place}{error.strerror}."
    else:
        sentence = f"unexpected error: {type(error).__name__}; run with DPTALLY_DEBUG=1 for details."
    if complete():
        sentence = f"what was asked for is written, but something failed after that: {sentence}"
    spent = spent_by(error)
    if spent is not None:
        sentence = f"{sentence} {spent}"
    if os.environ.get("DPTALLY_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    _flush_or_drop()
    sentence = without_credentials(sentence)  # a URL in the wrong place may hold a password
    with contextlib.suppress(OSError):  # nobody is there to be told
        print(f"dptally: {_shortened(printable(sentence))}", file=sys.stderr)
    return status


def _shortened(sentence: str) -> str:
    """A sentence without the middle of what an argument of thousands of characters makes of it."""
    return sentence if len(sentence) <= _LONGEST else f"{sentence[: _LONGEST // 2]} ... {sentence[-_LONGEST // 2 :]}"


def _flush_or_drop() -> None:
    """Write what is still buffered; where that fails, send it nowhere, so that the interpreter's last flush cannot."""
    try:
        sys.stdout.flush()
    except OSError:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
