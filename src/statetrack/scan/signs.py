"""Signs taken out of a diagonal: the gauge that lets a scan for positive decays run signed ones.

    S_t = Diag(s_t w_t) S_{t-1} + x_t (y_t^T S_{t-1}) + k_t v_t^T ;   P_t = s_t ... s_1 per channel
    S_t = Diag(P_t) R_t ,   R_t = Diag(w_t) R_{t-1} + (P_t x_t) ((P_{t-1} y_t)^T R_{t-1}) + (P_t k_t) v_t^T

Letters: s = signs, w = positive decays, R = the state without signs. Exact: products of signs do not round. Source: Complex KDA
(arXiv 2609.24797).
"""

from __future__ import annotations

import torch
from torch import Tensor


def running_signs(sign: Tensor, cu_seqlens: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Products ``P_t`` of signs since the start of their row or document.

    Args:
        sign: ``(B, L, ...)`` of 1 and -1, floating point.
        cu_seqlens: ``(S + 1,)`` offsets of documents packed along ``L`` of a batch of one.

    Returns:
        ``P (B, L, ...)``, and the last one of each row or document ``(B, ...)`` or ``(S, ...)``: 1 where there is no token.
    """
    before = torch.cat([sign.new_ones(sign.shape[0], 1, *sign.shape[2:]), sign], dim=1).cumprod(1)
    if cu_seqlens is None:
        return before[:, 1:], before[:, -1]
    at_border = before[0, cu_seqlens]
    tokens = torch.arange(sign.shape[1], device=sign.device)
    document = torch.searchsorted(cu_seqlens[1:].contiguous(), tokens, right=True)
    # A sign is its own inverse: a product with what came before the document takes that out.
    return before[:, 1:] * at_border[document], at_border[1:] * at_border[:-1]
