"""``python -m tests.bench [NAME...]``: measure, print, and write ``docs/benchmarks.md``; see ``--help``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.benchmarks import BENCHMARKS
from tests.bench.page import reported_noise, shown, write_page
from tests.bench.results import Section, merge_rows, read_sections, write_sections
from tests.bench.rows import Row
from tests.bench.run import OBSERVE_SECONDS, Benchmark, Run
from tests.results_page import look_around

_ROUNDS, _QUICK_ROUNDS = 5, 2


def main(arguments: Sequence[str] | None = None, benchmarks: Sequence[Benchmark] = BENCHMARKS) -> int:
    """Run those of ``benchmarks`` that the command line names, all if none; the exit status is 0."""
    known = [benchmark.name for benchmark in benchmarks]
    parser = _parser(known)
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(known)}")
    if options.page:
        folder = options.docs or Path("docs")
        _say(f"written: {write_page(folder, benchmarks, read_sections(_kept_in(folder)))}")
        return 0
    chosen = [each for each in benchmarks if not options.names or each.name in options.names]
    rounds = options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS)
    docs: Path | None = options.docs or (None if options.quick else Path("docs"))
    for benchmark in chosen:
        section = measure(benchmark, rounds, quick=options.quick, observe=options.observe)
        if options.json:
            merge_rows(options.json, section.rows)
        if docs is not None:
            _keep(docs, benchmarks, benchmark.name, section)
    return 0


def measure(benchmark: Benchmark, rounds: int, *, quick: bool, observe: float = OBSERVE_SECONDS) -> Section:
    """Run one benchmark and print its results."""
    _say(f"{benchmark.title} ({benchmark.name})")
    surroundings = look_around()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        run = Run(rounds, quick=quick, folder=Path(folder), say=_say, observe=observe)
        benchmark.measure(run)
    section = Section(
        measured=f"{surroundings.time:%Y-%m-%d %H:%M}",
        commit=f"{surroundings.commit[:12]} (`gateway` is {surroundings.code[:12]})"
        + (" with uncommitted changes" if surroundings.dirty else ""),
        system=f"{surroundings.system}, {_processor()}, Python {sys.version.split()[0]}",
        rounds=run.done,
        seconds=time.monotonic() - start,
        noise=run.noise(),
        figures=tuple(run.figures),
        rows=tuple(run.rows()),
    )
    for row in section.rows:
        _say(_line(row))
    _say(f"{reported_noise(section.noise)} {section.seconds:.0f} s in all.")
    return section


def _keep(docs: Path, benchmarks: Sequence[Benchmark], name: str, section: Section) -> None:
    """Replace a section on the page and in the file from which the page is made."""
    file = _kept_in(docs)
    file.parent.mkdir(parents=True, exist_ok=True)
    sections = {**read_sections(file), name: section}
    write_sections(file, sections)
    _say(f"written: {write_page(docs, benchmarks, sections)}")


def _kept_in(docs: Path) -> Path:
    return docs / "results" / "benchmarks.json"


def _line(row: Row) -> str:
    runs = " ".join(f"{ratio:.2f}" for ratio in row.runs)
    return (
        f"{row.name:<20} {row.ratio:>8.2f} x {row.peer_name:<14} "
        f"{shown(row.ours)} against {shown(row.peer)} {row.unit}  [{runs}]"
    )


def _processor() -> str:
    """Return the model of the processor, as Linux names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown processor"
    return next(
        (line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "unknown processor"
    )


def _parser(names: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Measure the gateway beside others who do the same."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(names)}; all if none is named")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write rows here; other rows of the file stay"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help=f"turns of each side (default {_ROUNDS})")
    parser.add_argument(
        "--observe",
        type=float,
        default=OBSERVE_SECONDS,
        metavar="SECONDS",
        help=f"how long a steady load is observed (default {OBSERVE_SECONDS:g})",
    )
    parser.add_argument("--quick", action="store_true", help="try the way, with counts that mean nothing")
    parser.add_argument("--page", action="store_true", help="measure nothing, only write the page again")
    parser.add_argument(
        "--docs", type=Path, metavar="FOLDER", help="write the page here (default docs; none with --quick)"
    )
    return parser


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
