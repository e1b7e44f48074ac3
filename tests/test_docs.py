"""The snippets of the pages run and print what they say, one after another on each page."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {page.name: re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf8"), re.DOTALL) for page in DOCS.glob("*.md")}
RUN = sorted(name for name, blocks in PAGES.items() if any(">>>" in block for block in blocks))


@pytest.mark.parametrize("name", RUN)
def test_snippets_print_what_they_say(name):
    names, runner = {}, doctest.DocTestRunner()
    for i, block in enumerate(PAGES[name]):
        test = doctest.DocTestParser().get_doctest(block, names, f"{name}, block {i + 1}", name, 0)
        runner.run(test, clear_globs=False)
        names = test.globs
    result = runner.summarize(verbose=False)
    assert result.failed == 0 and result.attempted > 0


def test_the_page_on_diagnostics_has_snippets():
    assert "diagnostics.md" in RUN


@pytest.mark.parametrize("page", [*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md"], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf8")
    named = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) + re.findall(r"```\{include\} (\S+)", text)
    missing = [target for target in named if "://" not in target and not (page.parent / target).exists()]
    assert not missing
