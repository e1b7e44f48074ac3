"""Running products of signs, and the low-rank scan with a signed decay."""

from itertools import pairwise

import torch

from statetrack.scan import low_rank_scan
from statetrack.scan.signs import running_signs


def random_signs(*shape, seed=0):
    return 1.0 - 2.0 * torch.randint(2, shape, generator=torch.Generator().manual_seed(seed)).double()


def test_products_restart_with_every_row_and_document():
    sign = random_signs(1, 9, 2, 3)
    for offsets in (None, torch.tensor([0, 3, 3, 4, 9])):
        running, last = running_signs(sign, offsets)
        borders = [0, 9] if offsets is None else offsets.tolist()
        for s, (a, b) in enumerate(pairwise(borders)):
            product = torch.ones(2, 3, dtype=torch.float64)
            for t in range(a, b):
                product = product * sign[0, t]
                assert torch.equal(running[0, t], product)
            assert torch.equal(last[s], product)


def test_nothing_read_gives_ones():
    running, last = running_signs(random_signs(2, 0, 3))
    assert running.shape == (2, 0, 3)
    assert torch.equal(last, torch.ones(2, 3, dtype=torch.float64))


def test_signs_move_from_the_decay_to_the_vectors():
    """``S <- Diag(s w) S + x (y^T S) + k v^T`` with any x and y, against the loop."""
    generator = torch.Generator().manual_seed(1)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    q, k, x, y = (normal(2, 30, 2, 3) / 3 for _ in range(4))
    v, start, w = normal(2, 30, 2, 4), normal(2, 2, 3, 4), torch.rand(2, 30, 2, 3, generator=generator, dtype=torch.float64)
    sign = random_signs(2, 30, 2, 3)
    p, last = running_signs(sign)
    o, final = low_rank_scan(p * q, p * k, v, p * x, p * sign * y, log_decay=w.log(), initial_state=start)
    state = start
    for t in range(30):
        read = torch.einsum("bhk,bhkv->bhv", y[:, t], state)
        state = (sign * w)[:, t].unsqueeze(-1) * state + torch.einsum("bhk,bhv->bhkv", x[:, t], read)
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], v[:, t])
        torch.testing.assert_close(o[:, t], torch.einsum("bhk,bhkv->bhv", q[:, t], state), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(last.unsqueeze(-1) * final, state, rtol=1e-11, atol=1e-12)
