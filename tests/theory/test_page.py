"""The page of the documentation is what the code writes."""

from __future__ import annotations

from pathlib import Path

from statetrack.layers import layers
from statetrack.theory import depth
from statetrack.theory.table import examples, page, write_page

PAGE = Path(__file__).parents[2] / "docs" / "what-can-my-layer-track.md"


def test_the_committed_page_is_up_to_date() -> None:
    command = "python -m statetrack.theory.table docs/what-can-my-layer-track.md"
    assert PAGE.read_text(encoding="utf8") == page(), f"The page is not what the code says. Write it anew: {command}"


def test_every_layer_and_automaton_has_its_cell() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines() if line.startswith("| ")
    ]
    heads = next(row for row in rows if row[0] == "layer")
    names = list(examples())
    assert [head.strip("`") for head in heads[1:]] == names
    cells = {row[0].strip("`"): row[1:] for row in rows if row[0].strip("`") in layers.names() and len(row) == len(heads)}
    assert sorted(cells) == layers.names()
    for layer in ("aussm", "mamba", "shift"):
        assert cells[layer] == [str(depth(layer, automaton)) for automaton in examples().values()]


def test_the_page_is_written_as_it_is(tmp_path: Path) -> None:
    write_page(tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text(encoding="utf8") == page()
