"""Injected faults: the package with one line made wrong, and the tests that must notice.

``python -m tests.mutants`` copies the package once for each fault, makes the change, runs the named tests against the
copy, and demands that one of them fails by an assertion. `tests/mutants/fault.py` says how a fault is written down; one
module for each paper lists them, and `around.py` those of everything that no paper speaks of.
"""
