"""How much the files of the log may take, and when they reach the disk."""

from __future__ import annotations

from dataclasses import dataclass

_SECOND = 10**9
_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class LogFileSettings:
    """Times in nanoseconds, sizes in octets.

    Attributes:
        commit_interval: records wait for so long at most before they are written and synced together.
        segment_duration: a segment is closed at this age.
        segment_size: or when it has so many octets, once its head is complete; one with a large head may
            have twice as many as its head. Never more than a quarter of ``max_size``, but for the head.
        max_size: of all files of the log and the lake; beyond it the oldest are deleted.
        max_age: files whose records are all older are deleted.
        min_free: nothing is written while the disk has less than this.
        max_waiting: records that wait in memory, with at most 1 KiB for each; beyond it what is lost is
            counted and recorded.
        retry_interval: how long to wait before a disk that failed is tried again.
    """

    commit_interval: int = 50 * 10**6
    segment_duration: int = 600 * _SECOND
    segment_size: int = 64 * _MEBIBYTE
    max_size: int = 4096 * _MEBIBYTE
    max_age: int = 30 * 86_400 * _SECOND
    min_free: int = 256 * _MEBIBYTE
    max_waiting: int = 200_000
    retry_interval: int = _SECOND
