"""The page about a run: self-contained, well-formed, and true to the numbers."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser

import pytest

from statetrack.models import ModelConfig
from statetrack.report import page, write_report
from statetrack.report.page import render
from statetrack.training import EvalConfig, Run, TrainConfig, train
from statetrack.training.measure import Measurement, measure

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Text, ids and attributes of a page; fails on tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.attributes, self.words, self.cells = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]
        self.ids += [value for name, value in attributes if name == "id"]
        if tag == "tr":
            self.cells.append([])

    def handle_startendtag(self, tag, attributes):
        self.attributes += [(tag, name, value) for name, value in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.words.append(data)
        if data.strip() and self.open and self.open[-1] in ("td", "th"):
            self.cells[-1].append(data.strip())

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    config = TrainConfig(
        "rnn",
        "cycle-navigation",
        {"format": "xlstm"},
        model=ModelConfig(d_model=8, layer={"d_state": 4}),
        evaluation=EvalConfig(every=10, low=8, high=10, n=8),
        steps=40,
        batch_size=8,
        seed=11,
    )
    return train(config, tmp_path_factory.mktemp("page") / "run")


@pytest.fixture(scope="module")
def text(run) -> str:
    return write_report(run, lengths=[8, 40, 1000], n=32).read_text(encoding="utf8")


def test_needs_no_network(text):
    assert not re.search(r"https?:|//\w|@import|url\((?!#)", text)
    for tag, name, value in Page(text).attributes:
        assert not (name in ("src", "href", "xlink:href", "data", "action") and not (value or "").startswith("#")), (
            tag,
            name,
            value,
        )
        assert tag not in ("script", "link", "iframe", "object")


def test_holds_the_numbers(text, run):
    found, read = measure(run, [8, 40, 1000], n=32, reuse=True), Page(text)
    rows = {row[0]: row for row in read.cells}
    for length, share in found.accuracy.items():
        low, high = found.interval(length)
        assert f"{100 * share:.1f} %" in rows[f"{length:,}"]
        assert f"{100 * low:.1f} \u2013 {100 * high:.1f}" in rows[f"{length:,}"]
    assert rows["1,000"][1] == "25"  # times the longest training word, 40
    assert ["task.format", "xlstm"] in read.cells
    assert ["layer.d_state", "4"] in read.cells
    assert "statetrack train rnn cycle-navigation --seed 11" in read.text
    assert f"{sum(p.numel() for p in run.load_model().parameters()):,}" in read.text
    assert "Guessing is right 16.7 % of the time" in read.text


def test_is_accessible(text):
    read = Page(text)
    assert len(read.ids) == len(set(read.ids))
    labels = [value for tag, name, value in read.attributes if tag == "svg" and name == "aria-label"]
    assert len(labels) == 4
    assert all(labels)
    assert [value for tag, name, value in read.attributes if tag == "svg" and name == "role"] == ["img"] * 4
    assert ("html", "lang", "en") in read.attributes
    assert {value for tag, name, value in read.attributes if tag == "th" and name == "scope"} == {"row", "col"}
    assert ("meta", "name", "viewport") in read.attributes


def test_figures_take_the_colours_of_the_theme(text):
    svgs = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(svgs) == 4
    for svg in svgs:
        assert "var(--series-1)" in svg
        assert not set(re.findall(r"#[0-9a-f]{6}", svg)) - {"#000000", "#ffffff"}
    assert "prefers-color-scheme: dark" in text


def test_is_the_same_every_time(text, run):
    assert render(run, measure(run, [8, 40, 1000], n=32, reuse=True)) == text


@pytest.fixture
def without_figures(monkeypatch):
    monkeypatch.setattr(page, "_in_both_widths", lambda draw, name: {})


def test_pooled_accuracy_has_a_row(run, without_figures):
    found = Measurement({8: 1.0, 40: 0.5}, 32, 1 / 6, {"low": 8, "high": 40, "n": 100, "accuracy": 0.75})
    rows = {row[0]: row for row in Page(render(run, found)).cells}
    assert rows["8\u201340"][1:3] == ["pooled", "75.0 %"]


def test_markup_in_a_path_is_text(run, tmp_path, without_figures):
    shutil.copytree(run.path, tmp_path / "<b>bold & brave")
    text = render(Run.open(tmp_path / "<b>bold & brave"), Measurement({8: 1.0}, 32, 0.2))
    assert "<b>bold & brave" in Page(text).text


def test_a_run_without_metrics_still_has_a_page(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "bare")
    (tmp_path / "bare" / "metrics.jsonl").unlink()
    text = write_report(Run.open(tmp_path / "bare"), tmp_path / "page.html", lengths=[8], n=8).read_text(encoding="utf8")
    assert "How it learnt" not in Page(text).text
