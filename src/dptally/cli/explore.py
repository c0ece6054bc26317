"""The command ``explore``."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from dptally.cli.explain import Explanation, described
from dptally.cli.parser import Commands, add_command, whole_number
from dptally.cli.printing import print_json, say
from dptally.cli.read import load_table
from dptally.cli.signals import Stopped


def add_commands(commands: Commands) -> None:
    """Add ``explore``."""
    parser = add_command(commands, "explore", _explore, _explain)
    parser.add_argument("release", metavar="RELEASE", nargs="?", help="a file written by dptally publish -o")
    parser.add_argument("--port", metavar="N", type=whole_number, default=0, help="to listen on (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")


def _explore(arguments: argparse.Namespace) -> None:
    """A local page to try parameters and ask a release.

    Serve a page to this machine only: move epsilon, delta, sampling and keys per unit and see at once which
    keys would appear with each mechanism; with a release, filter it and add it up. The address holds a
    secret token that is new every time. No data is read, nothing is spent. Ctrl-C ends it.

    dptally explore release.parquet
    dptally explore --port 8000 --no-browser
    """
    from dptally.explore.server import ExploreServer

    release = None if arguments.release is None else load_table(arguments.release)
    name = None if arguments.release is None else Path(arguments.release).name
    with ExploreServer(release, port=arguments.port, name=name) as server:
        if arguments.json:
            print_json({"url": server.url, "port": server.server_port})
        else:
            print(f"Open {server.url}\nCtrl-C ends it.")  # not wrapped, so that the address can be copied
        sys.stdout.flush()
        with _browser(server.url) if not arguments.no_browser else contextlib.nullcontext():
            try:
                server.serve_forever(poll_interval=0.2)
            except Stopped:
                raise
            except KeyboardInterrupt:  # how it is meant to end
                if not arguments.json:
                    say("\nStopped.")


@contextlib.contextmanager
def _browser(url: str) -> Iterator[None]:
    """Open the page in the reader's browser, where there is a screen.

    The address is handed over in a file that only its owner can read: all users can see the arguments of a command.
    """
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        yield
        return
    import tempfile
    import webbrowser

    with tempfile.TemporaryDirectory(prefix="dptally-") as folder:
        place = Path(folder) / "open.html"
        place.touch(mode=0o600)
        place.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0;url={url}"><title>dptally</title>')
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(place.as_uri())
        yield


def _explain(arguments: argparse.Namespace) -> Explanation:
    return Explanation(
        described(arguments),
        reads=() if arguments.release is None else (f"{arguments.release} (public)",),
        guarantee="That of the release, if one is given; the curves are computed from parameters alone.",
        resources="A process while it runs; a curve takes milliseconds, the slowest some seconds.",
    )
