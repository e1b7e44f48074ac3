"""Shape annotations: jaxtyping's where it is installed (tests check them), plain tensors where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Bool, Complex, Float, Inexact, Int, Shaped
else:
    try:
        from jaxtyping import Bool, Complex, Float, Inexact, Int, Shaped
    except ImportError:

        class _Plain:
            """Stands in for a jaxtyping dtype: ``Float[Tensor, "B L"]`` is just ``Tensor``."""

            def __class_getitem__(cls, item):
                return item[0]

        Bool = Complex = Float = Inexact = Int = Shaped = _Plain

__all__ = ["Bool", "Complex", "Float", "Inexact", "Int", "Shaped"]
