"""The rules of chess for many positions at once, in NumPy.

Positions are kept as the player to move sees them: own pieces are 1 to 6 (pawn, knight, bishop, rook, queen, king), the other
side's 7 to 12, 0 is empty, and squares run from a1 = 0 to h8 = 63 with the own side at the bottom. After a move the board turns.
Draws are not looked for: a game ends when no move is legal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from statetrack.errors import InvalidInputError
from statetrack.tasks.layout import IntArray

BoolArray = npt.NDArray[np.bool_]
PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING = range(1, 7)
PIECES = ".PNBRQKpnbrqk"
"""Letters of the classes of a square, from the point of view of white."""
START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
_PROMOTIONS = np.array((0, QUEEN, ROOK, BISHOP, KNIGHT))
"""Pieces by the number that stands for them in a move; 0 is none."""
_SWAP = np.array((0, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6))
_TURN = np.arange(64) ^ 56


class Positions(NamedTuple):
    """``B`` positions.

    Attributes:
        board: ``(B, 64)`` pieces.
        castling: ``(B, 4)`` bool, own right on the king's and the queen's side, then the other side's.
        en_passant: ``(B,)`` the square that a double step has just passed, or -1.
        black: ``(B,)`` bool, whether black is to move.
    """

    board: IntArray
    castling: BoolArray
    en_passant: IntArray
    black: BoolArray

    def take(self, rows: IntArray) -> Positions:
        """Some of the positions, in any order and number."""
        return Positions(self.board[rows], self.castling[rows], self.en_passant[rows], self.black[rows])

    def squares(self) -> IntArray:
        """``(B, 64)`` what stands on each square from a1 to h8, as a class of ``PIECES``."""
        return np.where(self.black[:, None], _SWAP[self.board[:, _TURN]], self.board)


class Moves(NamedTuple):
    """Moves as the players see them: row of the position, squares from and to, promotion (0 none, 1 queen ... 4 knight)."""

    row: IntArray
    start: IntArray
    end: IntArray
    promotion: IntArray


def _rays() -> IntArray:
    """``(8, 7, 64)`` the square so many steps away in each direction (4 straight, then 4 diagonal), or -1."""
    rank, file = np.divmod(np.arange(64), 8)
    rays = np.full((8, 7, 64), -1, dtype=np.int64)
    for i, (up, right) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))):
        for k in range(1, 8):
            to_rank, to_file = rank + k * up, file + k * right
            inside = (to_rank >= 0) & (to_rank < 8) & (to_file >= 0) & (to_file < 8)
            rays[i, k - 1][inside] = (8 * to_rank + to_file)[inside]
    return rays


_RAYS = _rays()
_RANK, _FILE = np.divmod(np.arange(64), 8)
_APART = np.abs(_RANK[:, None] - _RANK), np.abs(_FILE[:, None] - _FILE)
_KNIGHT = _APART[0] * _APART[1] == 2
_KING = np.maximum(*_APART) == 1
_PAWN_TAKES = (_RANK - _RANK[:, None] == 1) & (_APART[1] == 1)
"""``(64, 64)`` bool, from and to: steps of a knight and a king, and captures of a pawn that moves up."""


def position(fen: str = START) -> Positions:
    """One position from its FEN.

    Raises:
        InvalidInputError: not a FEN.
    """
    try:
        rows, turn, rights, passed = fen.split()[:4]
        text = "".join("." * int(c) if c.isdigit() else c for c in rows)
        board = np.array([PIECES.index(c) for rank in reversed(text.split("/")) for c in rank]).reshape(64)
        square = -1 if passed == "-" else "abcdefgh".index(passed[0]) + 8 * (int(passed[1]) - 1)
    except (ValueError, IndexError):
        raise InvalidInputError(f"{fen!r} is not a position in Forsyth-Edwards notation.") from None
    castling = np.array([[c in rights for c in "KQkq"]])
    made = Positions(board[None], castling, np.array([square]), np.array([False]))
    return made if turn == "w" else _turned(made)


def _turned(now: Positions) -> Positions:
    """The same positions as the other side sees them."""
    passed = np.where(now.en_passant < 0, -1, now.en_passant ^ 56)
    return Positions(_SWAP[now.board[:, _TURN]], now.castling[:, [2, 3, 0, 1]], passed, ~now.black)


def attacked(board: IntArray, square: IntArray) -> BoolArray:
    """``(B,)`` whether the other side attacks a square of each board ``(B, 64)``."""
    rows = np.arange(len(board))
    hit = np.zeros(len(board), dtype=bool)
    for piece, steps in ((KNIGHT, _KNIGHT), (KING, _KING), (PAWN, _PAWN_TAKES)):
        hit |= ((board == piece + 6) & steps[square]).any(axis=1)
    for i, direction in enumerate(_RAYS):
        slider, alive = (ROOK if i < 4 else BISHOP) + 6, np.ones(len(board), dtype=bool)
        for targets in direction:
            target = targets[square]
            alive = alive & (target >= 0)
            piece = board[rows, target]
            hit |= alive & ((piece == slider) | (piece == QUEEN + 6))
            alive = alive & (piece == 0)
            if not alive.any():
                break
    return hit


def legal_moves(now: Positions) -> Moves:
    """All legal moves of all positions, sorted by position."""
    moves = _with_promotions(now, *np.nonzero(_steps(now) | _castling(now)))
    after = _moved(now, moves)
    king = (after == KING).argmax(axis=1)
    kept = ~attacked(after, king)
    return Moves(*(part[kept] for part in moves))


def _steps(now: Positions) -> BoolArray:
    """``(B, 64, 64)`` all moves but castling, whether or not they leave the king in check."""
    board = now.board
    own, empty = (board > 0) & (board <= KING), board == 0
    allowed = ((board == KNIGHT)[:, :, None] & _KNIGHT) | ((board == KING)[:, :, None] & _KING)
    prey = board > KING
    rows = np.flatnonzero(now.en_passant >= 0)
    prey[rows, now.en_passant[rows]] = True
    allowed |= (board == PAWN)[:, :, None] & _PAWN_TAKES & prey[:, None]
    for i, direction in enumerate(_RAYS):
        alive = (board == (ROOK if i < 4 else BISHOP)) | (board == QUEEN)
        for targets in direction:
            inside = np.flatnonzero(targets >= 0)
            still = np.zeros_like(alive)
            still[:, inside] = alive[:, inside] & empty[:, targets[inside]]
            allowed[:, inside, targets[inside]] |= alive[:, inside]
            alive = still
            if not alive.any():
                break
    allowed &= ~own[:, None]
    single = (board == PAWN)[:, :56] & empty[:, 8:]
    allowed[:, np.arange(56), np.arange(8, 64)] |= single
    allowed[:, np.arange(8, 16), np.arange(24, 32)] |= single[:, 8:16] & empty[:, 24:32]
    return allowed


def _castling(now: Positions) -> BoolArray:
    """``(B, 64, 64)`` the moves of a king that castles. Black's king, too, stands on its e-file: boards turn by rank alone."""
    allowed = np.zeros((len(now.board), 64, 64), dtype=bool)
    for right, end, between, passed in ((0, 6, (5, 6), 5), (1, 2, (1, 2, 3), 3)):
        rows = np.flatnonzero(now.castling[:, right] & (now.board[:, between] == 0).all(axis=1))
        boards = now.board[rows]
        safe = ~attacked(boards, np.full(rows.size, 4)) & ~attacked(boards, np.full(rows.size, passed))
        allowed[rows[safe], 4, end] = True
    return allowed


def _with_promotions(now: Positions, row: IntArray, start: IntArray, end: IntArray) -> Moves:
    """Moves with one entry for each piece that a pawn may turn into."""
    promotes = (now.board[row, start] == PAWN) & (end >= 56)
    copies = np.where(promotes, 4, 1)
    which = np.repeat(np.arange(row.size), copies)
    nth = np.arange(which.size) - np.repeat(np.cumsum(copies) - copies, copies)
    return Moves(row[which], start[which], end[which], np.where(promotes[which], nth + 1, 0))


def _moved(now: Positions, moves: Moves) -> IntArray:
    """``(M, 64)`` boards after moves, still as the mover sees them."""
    board, at = now.board[moves.row], np.arange(moves.row.size)
    piece = board[at, moves.start]
    takes_passing = (piece == PAWN) & (moves.end == now.en_passant[moves.row])
    board[at[takes_passing], moves.end[takes_passing] - 8] = 0
    board[at, moves.start] = 0
    board[at, moves.end] = np.where(moves.promotion > 0, _PROMOTIONS[moves.promotion], piece)
    for end, corner, beside in ((6, 7, 5), (2, 0, 3)):
        castles: BoolArray = (piece == KING) & (moves.start == 4) & (moves.end == end) & now.castling[moves.row, int(end == 2)]
        board[at[castles], corner], board[at[castles], beside] = 0, ROOK
    return board


def play(now: Positions, moves: Moves) -> Positions:
    """The positions after moves, one for each move, as the other side sees them."""
    board = _moved(now, moves)
    piece = now.board[moves.row, moves.start]
    castling = now.castling[moves.row].copy()
    for right, squares in enumerate(((4, 7), (4, 0), (60, 63), (60, 56))):
        castling[:, right] &= ~np.isin(moves.start, squares) & ~np.isin(moves.end, squares)
    double = (piece == PAWN) & (moves.end - moves.start == 16)
    passed = np.where(double, moves.start + 8, -1)
    return _turned(Positions(board, castling, passed, now.black[moves.row]))


def move_ids(now: Positions, moves: Moves) -> IntArray:
    """``(from * 64 + to) * 5 + promotion`` with squares as white sees them."""
    turn = np.where(now.black[moves.row], 56, 0)
    return ((moves.start ^ turn) * 64 + (moves.end ^ turn)) * 5 + moves.promotion


def moves_of_ids(now: Positions, ids: IntArray) -> Moves:
    """The inverse of ``move_ids``, one move for each position."""
    squares, promotion = ids // 5, ids % 5
    turn: IntArray = np.where(now.black, 56, 0)
    return Moves(np.arange(len(ids)), (squares // 64) ^ turn, (squares % 64) ^ turn, promotion)


def id_of_uci(uci: str) -> int:
    """The id of a move such as ``e2e4`` or ``e7e8q``.

    Raises:
        InvalidInputError: not a move.

    >>> id_of_uci("e2e4"), id_of_uci("e7e8q")
    (3980, 16941)
    """
    try:
        start, end = ("abcdefgh".index(uci[i]) + 8 * "12345678".index(uci[i + 1]) for i in (0, 2))
        promotion = "qrbn".index(uci[4:]) + 1 if len(uci) == 5 else 0
    except (ValueError, IndexError):
        raise InvalidInputError(f"{uci!r} is not a move like 'e2e4' or 'e7e8q'.") from None
    if len(uci) not in (4, 5):
        raise InvalidInputError(f"{uci!r} is not a move like 'e2e4' or 'e7e8q'.")
    return (start * 64 + end) * 5 + promotion
