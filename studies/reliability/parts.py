"""The parts, in the order of the report. Another one is another line here."""

from __future__ import annotations

from studies.reliability.kills import kill_publishing, kill_spilling
from studies.reliability.many_writers import measure_cost, share_a_budget, spend_at_once
from studies.reliability.outcomes import Part
from studies.reliability.surroundings import fill_disk, limit_files, refuse_writing, set_clock_back
from studies.reliability.written_files import kill_checkpoints, kill_federations, kill_saves

__all__ = ["PARTS"]

PARTS = (
    Part("kills", "`dptally publish --ledger` killed at random moments and right after each step", kill_publishing),
    Part("spills", "killed while rows that do not fit in memory are on disk", kill_spilling),
    Part("saves", "killed in `release.save`, over an older file and under a new name", kill_saves),
    Part("sketches", "killed while checkpoints of a sketch are written", kill_checkpoints),
    Part("federations", "the server of a federation killed, and resumed", kill_federations),
    Part("disk", "a disk with 0 to 40 pages of 4 KiB left", fill_disk),
    Part("limits", "files that may not grow beyond 0 to 40,000 bytes", limit_files),
    Part("readonly", "directories and files that may not be written or read", refuse_writing),
    Part("clock", "the clock set back and forward", set_clock_back),
    Part("writers", "processes that publish from one budget until it is empty", share_a_budget),
    Part("throughput", "processes that spend as fast as they can", spend_at_once),
    Part("cost", "a release of 100 keys with and without a ledger", measure_cost),
)
