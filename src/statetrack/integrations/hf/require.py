"""One sentence that names the extra, in place of a traceback, where transformers is not installed."""

from __future__ import annotations

from statetrack.errors import MissingExtraError

try:
    import transformers  # noqa: F401
except ImportError as error:
    raise MissingExtraError("transformers", "hf", "Hugging Face integration") from error
