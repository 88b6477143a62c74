"""The page of benchmarks: texts written by hand around tables and plots that are measured.

``texts/introduction.md`` opens the page; ``texts/<name>.md`` is the section of a benchmark, with a line
``{results}`` in the place of its results. These texts outlast every run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib import rc_context
from matplotlib.figure import Figure as Plot

from tests.bench.results import Section
from tests.bench.rows import Row
from tests.bench.run import Benchmark

TEXTS: Final = Path(__file__).with_name("texts")
_RESULTS: Final = "{results}"
_LOUDEST: Final = 3
_LARGE, _MIDDLING = 1000, 10


def write_page(folder: Path, benchmarks: Sequence[Benchmark], sections: Mapping[str, Section]) -> Path:
    """Write ``benchmarks.md`` and its plots below a folder of documentation, without unmeasured benchmarks.

    Raises:
        OSError: a text is missing, or a file cannot be written.
        ValueError: the text of a section has no place for its results.
    """
    parts = [_text("introduction")]
    plots = folder / "_static"
    plots.mkdir(parents=True, exist_ok=True)
    for benchmark in benchmarks:
        section = sections.get(benchmark.name)
        if section is None:
            continue
        text = _text(benchmark.name)
        if _RESULTS not in text:
            raise ValueError(f"texts/{benchmark.name}.md has no line {_RESULTS}")
        plot = plots / f"benchmark-{benchmark.name}.svg"
        draw(plot, section.rows)
        results = _results(section, f"_static/{plot.name}", benchmark.title)
        parts.append(f"## {benchmark.title}\n\n{text.replace(_RESULTS, results)}")
    page = folder / "benchmarks.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draw a bar for each row, from 1 to the ratio, and a dot for each round. The scale is logarithmic."""
    # The same rows make the same octets: no date, no random names, and text instead of outlines of letters.
    with rc_context({"svg.hashsalt": "benchmark", "svg.fonttype": "none", "font.family": "sans-serif"}):
        plot = Plot(figsize=(8, 1.1 + 0.32 * len(rows)), layout="constrained")
        axes = plot.subplots()
        for place, row in enumerate(reversed(rows)):
            color = "#3b7dd8" if row.ratio >= 1 else "#d88a3b"
            axes.barh(place, row.ratio - 1, left=1, height=0.66, color=color)
            axes.plot(row.runs, [place] * len(row.runs), "k.", markersize=4, alpha=0.6)
        axes.set_yticks(range(len(rows)), [f"{row.name} / {row.peer_name}" for row in reversed(rows)])
        axes.set_xscale("log")
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xlabel("our speed / the peer's speed (bar: median round, dots: all rounds)")
        axes.grid(visible=True, axis="x", which="both", alpha=0.25)
        plot.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| case | peer | unit | ours | peer's | ratio | rounds |", "|" + " --- |" * 7]
    lines += [
        f"| `{row.name}` | {row.peer_name} | {row.unit} | {shown(row.ours)} | {shown(row.peer)} "
        f"| **{row.ratio:.2f}** | {', '.join(f'{ratio:.2f}' for ratio in row.runs)} |"
        for row in rows
    ]
    return "\n".join(lines)


def shown(value: float) -> str:
    """Return a reading with as many digits as are significant."""
    if value >= _LARGE:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= _MIDDLING else f"{value:.3g}"


def reported_noise(noise: Mapping[str, float]) -> str:
    """Return a sentence with the spreads of the fixed loops and of the readings of the least steady sides."""
    fixed = [f"{name} {value:.0%}" for name, value in noise.items() if name.startswith("fixed loop")]
    others = sorted(((value, name) for name, value in noise.items() if not name.startswith("fixed loop")))
    loudest = [f"{name} {value:.0%}" for value, name in others[: -_LOUDEST - 1 : -1]]
    return f"Equal work was apart by: {', '.join([*fixed, *loudest])}."


def _results(section: Section, plot: str, title: str) -> str:
    figures = "\n".join(f"| {figure.name} | {figure.value} |" for figure in section.figures)
    where = f"{section.measured} UTC, commit {section.commit}, {section.system}"
    rounds = f"{section.rounds} rounds in {section.seconds:.0f} s"
    parts = [
        f"Measured on {where}: {rounds}. {reported_noise(section.noise)}",
        table(section.rows),
        f"![{title}: how much faster than each peer]({plot})",
    ]
    if figures:
        parts.append(f"| figure | value |\n| --- | --- |\n{figures}")
    return "\n\n".join(parts)


def _text(name: str) -> str:
    return (TEXTS / f"{name}.md").read_text(encoding="utf-8").strip()
