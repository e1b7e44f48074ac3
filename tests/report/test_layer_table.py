"""The table of all layers."""

from pathlib import Path

from statetrack.layers import layers
from statetrack.report.layer_table import COLUMNS, layer_markdown, layer_rows

DOCS = Path(__file__).parent.parent.parent / "docs" / "layer-table.md"


def test_rows_say_what_the_traits_say():
    rows = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in layer_rows()}
    assert list(rows) == layers.names()
    for name, row in rows.items():
        traits = layers.get(name).traits
        assert row["Parity"] == {True: "yes", False: "no", None: "open"}[traits.parity]
        assert traits.one_layer.what in row["One layer tracks"]
        assert traits.one_layer.source in row["One layer tracks"]
        assert row["State update"] == traits.cost
    assert "at most star-free" in rows["mamba"]["One layer tracks"]
    assert "(arXiv 2411.12537)" not in " ".join(layer_rows(sources=False)[layers.names().index("mamba")][:5])


def test_the_documented_table_is_up_to_date():
    assert DOCS.read_text(encoding="utf8") == layer_markdown(), "run: python -m statetrack.report.layer_table docs/layer-table.md"
