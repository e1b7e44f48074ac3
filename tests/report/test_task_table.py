"""The table of all tasks."""

from pathlib import Path

from statetrack.report.task_table import COLUMNS, task_markdown, task_rows
from statetrack.tasks import make_task, tasks

DOCS = Path(__file__).parent.parent.parent / "docs" / "task-table.md"


def test_rows_say_what_the_tasks_say():
    rows = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in task_rows()}
    assert list(rows) == tasks.names()
    for name, row in rows.items():
        task = make_task(name)
        assert (row["Tokens"], row["Classes"]) == (str(task.vocab_size), str(task.n_classes))
        assert row["Asks for"] == task.summary and row["Source"] == task.source
    labels = {name: rows[name]["Labels"] for name in ("parity", "dyck", "flip-flop", "induction-heads")}
    assert labels == {"parity": "last", "dyck": "every", "flip-flop": "several", "induction-heads": "last"}
    assert (rows["flip-flop"]["States"], rows["regbench"]["Ceiling"], rows["mqar"]["Ceiling"]) == ("4", "", "1")


def test_the_documented_table_is_up_to_date():
    assert DOCS.read_text(encoding="utf8") == task_markdown(), "run: python -m statetrack.report.task_table docs/task-table.md"
