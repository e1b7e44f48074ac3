"""Chess: published counts of positions, hand-made cases of the rules, and replays of games."""

from __future__ import annotations

import lzma

import numpy as np
import pytest

from statetrack.errors import InvalidInputError
from statetrack.tasks import make_task
from statetrack.tasks.chess_rules import (
    PIECES,
    START,
    Positions,
    id_of_uci,
    legal_moves,
    move_ids,
    moves_of_ids,
    play,
    position,
)

# Numbers of positions after 1, 2, ... moves, from the Chess Programming Wiki's perft results.
PERFT = {
    START: (20, 400, 8902),
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1": (48, 2039, 97862),
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1": (14, 191, 2812, 43238),
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1": (6, 264, 9467),
    "r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1": (6, 264, 9467),
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8": (44, 1486, 62379),
}


@pytest.mark.parametrize("fen", PERFT)
def test_numbers_of_positions(fen: str) -> None:
    now, counts = position(fen), []
    for _ in PERFT[fen]:
        now = play(now, legal_moves(now))
        counts.append(len(now.board))
    assert tuple(counts) == PERFT[fen]


def shown(now: Positions) -> str:
    """The board as in a FEN."""
    letters = [PIECES[piece] for piece in now.squares()[0].tolist()]
    ranks = ("".join(letters[8 * r : 8 * r + 8]) for r in reversed(range(8)))
    return "/".join(ranks)


def replay(fen: str, moves: str) -> str:
    now = position(fen)
    for uci in moves.split():
        move = np.array([id_of_uci(uci)])
        assert move[0] in move_ids(now, legal_moves(now)), f"{uci} is legal"
        now = play(now, moves_of_ids(now, move))
    return shown(now)


@pytest.mark.parametrize(
    "fen, moves, board",
    [
        (
            "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",
            "e1g1 e8c8",
            "..kr...r/......../......../......../......../......../......../R....RK.",
        ),
        (
            "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",
            "e1c1 e8g8",
            "r....rk./......../......../......../......../......../......../..KR...R",
        ),
        (
            "4k3/2p5/8/1P6/8/8/8/4K3 b - - 0 1",
            "c7c5 b5c6",
            "....k.../......../..P...../......../......../......../......../....K...",
        ),
        (
            "4k3/8/8/8/3p4/8/4P3/4K3 w - - 0 1",
            "e2e4 d4e3",
            "....k.../......../......../......../......../....p.../......../....K...",
        ),
        ("1n2k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7b8n", ".N..k.../......../......../......../......../......../......../....K..."),
        ("4k3/8/8/8/8/8/7p/4K3 b - - 0 1", "h2h1q", "....k.../......../......../......../......../......../......../....K..q"),
    ],
)
def test_castling_en_passant_and_promotion(fen: str, moves: str, board: str) -> None:
    assert replay(fen, moves) == board


@pytest.mark.parametrize(
    "fen, moves, forbidden",
    [
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "a1a8 e8f7", "e1c1"),  # the rook has gone
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "h1h8 e8e7 e1e2 e7e6 e2e1 e6e7", "e1c1"),  # the king has moved
        ("r3k2r/8/8/8/8/8/6n1/R3K2R b kq - 0 1", "g2e3", "e1g1"),  # no right to it
        ("4k3/8/8/8/8/8/8/R3K1r1 w Q - 0 1", "", "e1c1"),  # out of check
        ("3rk3/8/8/8/8/8/8/R3K3 w Q - 0 1", "", "e1c1"),  # through an attacked square
        ("4k3/2p5/8/1P6/8/8/8/4K3 b - - 0 1", "c7c5 e1d1 e8d8", "b5c6"),  # too late to take in passing
        ("4k3/8/8/1r2pP1K/8/8/8/8 w - e6 0 1", "", "f5e6"),  # both pawns leave the rank, and the rook gives check
        ("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3", "", "e1f2"),  # mate
    ],
)
def test_what_is_not_allowed(fen: str, moves: str, forbidden: str) -> None:
    now = position(fen)
    for uci in moves.split():
        now = play(now, moves_of_ids(now, np.array([id_of_uci(uci)])))
    assert id_of_uci(forbidden) not in move_ids(now, legal_moves(now))


def test_taking_a_rook_takes_the_right_to_castle_with_it() -> None:
    now = position("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1")
    now = play(now, moves_of_ids(now, np.array([id_of_uci("a1a8")])))
    assert now.castling[0].tolist() == [True, False, True, False]


def test_a_mated_player_has_no_move() -> None:
    now = position("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3")
    assert legal_moves(now).row.size == 0


def test_labels_are_those_of_a_replay() -> None:
    squares, board = make_task("chess"), make_task("chess", questions="board")
    lengths = np.array([1, 25, 40, 9])
    one, all_ = (task.sample(4, lengths, np.random.default_rng(0)) for task in (squares, board))
    assert one.lengths.tolist() == (2 * lengths).tolist() and all_.lengths.tolist() == (lengths + 64).tolist()
    for batch, step in ((one, 2), (all_, 1)):
        for inputs, targets, mask, n in zip(batch.inputs.tolist(), batch.targets, batch.mask, lengths.tolist(), strict=True):
            now = position()
            for t in range(n):
                move = np.array([inputs[step * t]])
                assert move[0] in move_ids(now, legal_moves(now))
                now = play(now, moves_of_ids(now, move))
                if step == 2:
                    assert bool(mask[2 * t + 1]) and int(targets[2 * t + 1]) == now.squares()[0, inputs[2 * t + 1] - 20480]
            if step == 1:
                assert inputs[n : n + 64] == list(range(20480, 20544))
                assert targets[n : n + 64].tolist() == now.squares()[0].tolist() and int(mask.sum()) == 64


def test_first_moves_are_uniform() -> None:
    batch = make_task("chess").sample(6000, 1, np.random.default_rng(1))
    ids, counts = np.unique(batch.inputs[:, 0].numpy(), return_counts=True)
    assert ids.size == 20 and np.abs(counts - 300).max() < 5 * np.sqrt(300)


def test_games_of_a_file(tmp_path) -> None:
    path = tmp_path / "games.tsv.xz"
    path.write_bytes(lzma.compress(b"Me\t1-0\te2e4 e7e5 g1f3\nYou\t0-1\td2d4\n\n"))
    task = make_task("chess", games=str(path))
    batch = task.sample(40, np.array([1, 3] * 20), np.random.default_rng(0))
    firsts = {row[0] for row in batch.inputs[::2].tolist()}
    assert firsts == {id_of_uci("e2e4"), id_of_uci("d2d4")}
    assert {tuple(row[::2]) for row in batch.inputs[1::2].tolist()} == {tuple(map(id_of_uci, ("e2e4", "e7e5", "g1f3")))}
    with pytest.raises(InvalidInputError, match="No game of the file has 4 moves; the longest has 3"):
        task.sample(1, 4, np.random.default_rng(0))


def test_moves_have_ids() -> None:
    assert (id_of_uci("a1h8"), id_of_uci("a7a8n")) == (63 * 5, (48 * 64 + 56) * 5 + 4)
    for wrong in ("e2", "e2e9", "e7e8k", "e2e4qq"):
        with pytest.raises(InvalidInputError, match="not a move"):
            id_of_uci(wrong)
    with pytest.raises(InvalidInputError, match="not a position"):
        position("rnbqkbnr/8 w - -")


@pytest.mark.parametrize("content, message", [(b"", "holds no games"), (b"e2e4 hello", "'hello' is not a move")])
def test_files_without_games(tmp_path, content: bytes, message: str) -> None:
    path = tmp_path / "games.txt"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=message):
        make_task("chess", games=str(path))
