"""The page that looks inside a run: self-contained, well-formed, and true to what was counted by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from statetrack.analysis.inspection import confusion, inspect_run, layer_view
from statetrack.analysis.spectra import spectrum
from statetrack.cli.inspect import run as run_command
from statetrack.errors import InvalidInputError, RunError
from statetrack.layers import layers, make_layer
from statetrack.layers.base import layer_options
from statetrack.models import ModelConfig
from statetrack.report import inspection
from statetrack.report.discs import disc, draw_spectrum, said
from statetrack.report.inspection import render_inspection, write_inspection
from statetrack.report.inspection_figures import influence_figure, spectra_figure, use_figure
from statetrack.training import EvalConfig, LengthConfig, Run, TrainConfig, train
from statetrack.training.evaluate import evaluation_set


class Nesting(HTMLParser):
    """Fails on tags that do not nest; collects ids and the targets of links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.ids, self.links = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.handle_startendtag(tag, attributes)

    def handle_startendtag(self, tag, attributes):
        self.ids += [value for name, value in attributes if name == "id"]
        self.links += [value[1:] for name, value in attributes if tag == "a" and name == "href"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tiny(name: str, task: str, **model) -> TrainConfig:
    return TrainConfig(
        name,
        task,
        model=ModelConfig(**{"d_model": 8, **model}),
        lengths=LengthConfig(low=3, high=12, start=None),
        evaluation=EvalConfig(every=10, low=8, high=10, n=8),
        steps=3,
        batch_size=8,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    options = {"d_state": 4, "dictionary_size": 4, "n_heads": 2, "d_field": "real", "modulus": "unit"}
    return train(tiny("flash-pd-ssm", "cycle-navigation", layer=options), tmp_path_factory.mktemp("inside") / "run")


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory) -> Run:
    options = {"mamba.d_state": 2, "transformer.n_heads": 1}
    config = tiny("mamba|transformer", "mqar", n_layers=2, norm="pre", residual=True, layer=options)
    only = LengthConfig(low=16, high=16, start=None)
    config = replace(config, lengths=only, evaluation=EvalConfig(every=10, low=16, high=16, n=8))
    return train(config, tmp_path_factory.mktemp("inside") / "hybrid")


@pytest.fixture(scope="module")
def found(run):
    return inspect_run(run, words=2, length=10, lengths=[8, 20], n=16, max_states=6)


@pytest.fixture(scope="module")
def page(run, found) -> str:
    return render_inspection(run, found)


def test_page_is_self_contained_and_well_formed(page):
    assert not re.search(r"https?:|//\w|@import|<script|<link", page)
    read = Nesting(page)
    assert len(read.ids) == len(set(read.ids))
    assert set(read.links) <= set(read.ids)
    assert set(read.links) == {"spectra", "influence", "smoothing", "state", "answers", "automaton"}
    svgs = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert all('aria-label="' in svg for svg in svgs)
    mapped = {"#000000", "#ffffff", "#1b1f25", "#cfe3f3", "#fbdcc4", "#c9ebdd", "#f3dbe8", "#faecc5", "#d9f0fb", "#e4e4e4"}
    for svg in svgs:
        assert not set(re.findall(r"#[0-9a-f]{6}", svg)) - mapped


def test_page_says_what_was_measured(page, found, run):
    model = run.load_model()
    with torch.no_grad():
        eigenvalues = found.layers[0].single.eigenvalues
        zeros = float((eigenvalues.abs() < 1e-9).double().mean())
    assert f"{100 * zeros:.1f} % zero" in page
    assert f"{found.extraction.automaton.n_states} states" in page or "At least" in page
    assert f"of {model.layers[0].d_state}." in page
    for length, share in found.accuracy.accuracy.items():
        assert f"Length {length}: {100 * share:.1f} % right" in page


def test_confusion_counts_every_answer(run):
    model, task = run.load_model(), run.task
    found = confusion(model, task, 9, 32, run.config.seed)
    counts = torch.zeros(task.n_classes, task.n_classes, dtype=torch.int64)
    for batch in evaluation_set(task, 9, 9, 32, run.config.seed, "test"):
        with torch.no_grad():
            given = model(batch.inputs)[0].argmax(-1)
        for b, t in batch.mask.nonzero().tolist():
            counts[batch.targets[b, t], given[b, t]] += 1
    assert found.pairs.tolist() == counts.nonzero().tolist()
    assert torch.equal(found.counts, counts[found.classes][:, found.classes])
    assert found.accuracy == pytest.approx(run.evaluate([9], n=32)["accuracy"][9])
    wrong = found.most_confused(1)[0]
    assert wrong[0] != wrong[1]
    assert wrong[2] == (counts - counts.diagonal().diag()).max()


def test_attention_and_open_tasks_get_a_page_with_reasons(hybrid):
    found = inspect_run(hybrid, words=2, length=16, lengths=[hybrid.task.min_length], n=8)
    text = render_inspection(hybrid, found)
    Nesting(text)
    assert found.extraction is None
    assert "None was extracted" in text
    assert "no transition matrices" in text
    assert found.layers[1].single is None
    assert found.layers[0].single is not None
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["layers"][1]["layer"] == "transformer"


def test_writing_is_all_or_nothing(run, found, page, tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "render_inspection", lambda *_: page)
    path = write_inspection(run, found, tmp_path / "page.html")
    assert path.read_text(encoding="utf8").endswith("</html>\n")
    (tmp_path / "file").write_text("taken")
    with pytest.raises(RunError, match="Cannot write"):
        write_inspection(run, found, tmp_path / "file" / "page.html")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "page.html"]


def test_command_writes_into_the_run_folder(run, page, capsys, monkeypatch):
    monkeypatch.setattr(inspection, "render_inspection", lambda *_: page)
    assert run_command([str(run.path), "--lengths", "8", "--n", "8", "--length", "6", "--words", "1", "--states", "4"]) == 0
    assert capsys.readouterr().out.strip() == str(run.path / "inspect.html")
    with pytest.raises(InvalidInputError, match="length at least 2"):
        inspect_run(run, length=1)


def test_every_registered_layer_can_be_drawn():
    views = []
    for name in layers:
        known = layer_options(name)
        sizes = {"d_state": 2, "n_heads": 1, "block_size": 2, "n_iterations": 2}
        options = {key: value for key, value in sizes.items() if key in known}
        torch.manual_seed(0)
        views.append(layer_view(name, make_layer(name, 4, **options), torch.randn(2, 5, 4)))
    assert {view.name: list(view.missing) for view in views if view.missing} == {"transformer": ["spectra"]}
    for drawn in (
        spectra_figure(views[::6], width=7.4, name="a"),
        use_figure(views, width=3.7, name="b"),
        influence_figure(views[0].influence, views, width=3.7, name="c"),
    ):
        assert drawn.startswith("<svg")
        assert "nan" not in drawn.lower()


def test_a_disc_shows_the_eigenvalues(tmp_path):
    from matplotlib.figure import Figure

    torch.manual_seed(0)
    found = spectrum(make_layer("deltanet", 4, n_heads=1), torch.randn(1, 3, 4))
    axes = Figure().add_subplot()
    disc(axes, found, "#0072b2", "", said(found))
    places = torch.tensor(axes.collections[0].get_offsets().data)
    values = found.eigenvalues.flatten()
    nearest = (values.unsqueeze(1) - torch.complex(*places.T)).abs().amin(1)
    assert nearest.max() < 0.02
    areas = axes.collections[0].get_sizes()
    assert areas.max() == pytest.approx(700 * 9 / 12)  # three eigenvalues of four are 1 at every token
    assert said(found) == "75.0 % on the circle"
    draw_spectrum(found, tmp_path / "disc.png", title="deltanet")
    assert (tmp_path / "disc.png").stat().st_size > 5000
    with pytest.raises(InvalidInputError, match="ends in"):
        draw_spectrum(found, tmp_path / "disc.gif")
