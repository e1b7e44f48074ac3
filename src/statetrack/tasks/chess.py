"""Chess: where do the pieces stand after some moves?

    e2e4 ?e4 c7c5 ?a1 ...      target at ?square: what stands there

Source of the task: the chess world model (arXiv 2605.30100), whose targets are 75 labels after each move. This is a reduced form:
pieces on squares alone, asked for in the sequence.
"""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np

from statetrack.errors import InvalidInputError
from statetrack.tasks.base import Batch, Task, register
from statetrack.tasks.checks import one_of, row_lengths
from statetrack.tasks.chess_rules import (
    PIECES,
    Moves,
    Positions,
    id_of_uci,
    legal_moves,
    move_ids,
    moves_of_ids,
    play,
    position,
)
from statetrack.tasks.layout import IntArray, batch_of

Questions: TypeAlias = Literal["squares", "board"]
QUESTIONS: tuple[str, ...] = get_args(Questions)
N_MOVES = 64 * 64 * 5


@register("chess")
class Chess(Task):
    """What stands on a square after the moves of a game?

    Token ``(from * 64 + to) * 5 + promotion`` is a move (squares a1 = 0 to h8 = 63; promotion 0 none, then queen, rook, bishop,
    knight), token ``20480 + square`` asks about a square. Classes: empty, then pawn, knight, bishop, rook, queen, king of white,
    then of black. A length counts moves of either side. Random games pick uniformly among the legal moves and may end sooner.

    Args:
        questions: ``"squares"`` asks about a uniform square after each move, ``"board"`` about all squares after the last.
        games: file of games to take the moves from, one in a line: in the last of its columns, which tabs separate, moves like
            e2e4 or e7e8q with blanks in between. It may be compressed with xz. None plays random games.

    Raises:
        InvalidInputError: a file that holds no games, or no game that is long enough.

    >>> batch = Chess().sample(1, 1, np.random.default_rng(0))
    >>> batch.inputs.shape, int(batch.mask.sum())
    (torch.Size([1, 2]), 1)
    """

    summary = "what stands on a square of the board after some moves"
    source = "arXiv 2605.30100"

    def __init__(self, *, questions: Questions = "squares", games: str | None = None) -> None:
        self.questions = one_of("questions", questions, QUESTIONS)
        self.padding = N_MOVES + 64
        self.vocab_size, self.n_classes, self.chance = N_MOVES + 65, len(PIECES), 1 / len(PIECES)
        self.games = None if games is None else read_games(games)

    def sample(self, batch_size: int, length: int | np.ndarray, generator: np.random.Generator) -> Batch:
        lengths = row_lengths(self, batch_size, length)
        moves, boards, played = self._games(lengths, generator)
        if self.questions == "board":
            return self._board(moves, boards, played)
        squares = generator.integers(0, 64, size=moves.shape, dtype=np.int64)
        pieces = np.take_along_axis(boards, squares[:, :, None], axis=2)[:, :, 0]
        shape = batch_size, 2 * moves.shape[1]
        inputs = np.stack((moves, N_MOVES + squares), axis=2).reshape(shape)
        targets, mask = np.stack((pieces, pieces), axis=2).reshape(shape), np.broadcast_to(np.arange(shape[1]) % 2 == 1, shape)
        return batch_of(inputs, targets, mask, 2 * played, self.padding)

    def _board(self, moves: IntArray, boards: IntArray, played: IntArray) -> Batch:
        rows, n = np.arange(len(moves))[:, None], moves.shape[1]
        inputs = np.concatenate((moves, np.zeros((len(moves), 64), dtype=np.int64)), axis=1)
        targets, mask = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=bool)
        places = played[:, None] + np.arange(64)
        inputs[rows, places], mask[rows, places] = N_MOVES + np.arange(64), True
        targets[rows, places] = boards[rows[:, 0], np.minimum(played, n) - 1]
        return batch_of(inputs, targets, mask, played + 64, self.padding)

    def _games(self, lengths: IntArray, generator: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
        """Moves ``(B, W)``, boards after them ``(B, W, 64)`` and the number of moves of each game."""
        batch_size, width = len(lengths), int(lengths.max())
        given = None if self.games is None else self._picked(lengths, generator)
        now = position().take(np.zeros(batch_size, dtype=np.int64))
        moves, boards = np.zeros((batch_size, width), dtype=np.int64), np.zeros((batch_size, width, 64), dtype=np.int64)
        played, rows = np.zeros(batch_size, dtype=np.int64), np.arange(batch_size)
        for t in range(width):
            going = lengths[rows] > t
            now, rows = now.take(np.flatnonzero(going)), rows[going]
            chosen = _random_moves(now, generator) if given is None else moves_of_ids(now, given[rows, t])
            rows = rows[chosen.row]
            if not rows.size:
                break
            moves[rows, t] = move_ids(now, chosen)
            now = play(now, chosen)
            boards[rows, t] = now.squares()
            played[rows] += 1
        return moves, boards, played

    def _picked(self, lengths: IntArray, generator: np.random.Generator) -> IntArray:
        """The first moves of games of the file, uniform among those that are long enough."""
        assert self.games is not None
        picked = np.zeros((len(lengths), int(lengths.max())), dtype=np.int64)
        sizes = np.array([len(game) for game in self.games])
        order = np.argsort(sizes, kind="stable")
        for row, length in enumerate(lengths.tolist()):
            first = int(np.searchsorted(sizes[order], length))
            if first == len(order):
                raise InvalidInputError(f"No game of the file has {length} moves; the longest has {sizes.max()}.")
            picked[row, :length] = self.games[order[generator.integers(first, len(order))]][:length]
        return picked


def _random_moves(now: Positions, generator: np.random.Generator) -> Moves:
    """One uniform legal move of each position that has any."""
    moves = legal_moves(now)
    order = np.lexsort((generator.random(moves.row.size), moves.row))
    _, first = np.unique(moves.row[order], return_index=True)
    return Moves(*(part[order[first]] for part in moves))


def read_games(path: str) -> list[IntArray]:
    """The games of a file as arrays of move ids.

    Raises:
        InvalidInputError: the file cannot be read, holds no game, or a move that is none.
    """
    try:
        content = Path(path).read_bytes()
        text = (lzma.decompress(content) if path.endswith(".xz") else content).decode("utf-8")
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"Cannot read the file of games {path!r}: {error}.") from None
    known: dict[str, int] = {}
    games = []
    for line in text.splitlines():
        words = line.split("\t")[-1].split()
        for word in words:
            if word not in known:
                known[word] = id_of_uci(word)
        if words:
            games.append(np.array([known[word] for word in words], dtype=np.int64))
    if not games:
        raise InvalidInputError(f"The file {path!r} holds no games.")
    return games
