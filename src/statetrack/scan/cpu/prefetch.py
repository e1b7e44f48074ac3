"""Asking for memory before it is needed.

A processor foresees walks through memory that go up. The backward pass goes up within a token and down from token to token, so
that every token would start with a miss for each array; it asks for tokens that it is about to reach.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


@intrinsic
def prefetch(context: Any, array: Any, index: Any) -> Any:
    """Bring ``array[index]`` (one-dimensional, contiguous; an index outside is ignored by the processor) into cache."""

    def generate(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = target.make_array(signature.args[0])(target, builder, args[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [args[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(call, [address, number(0), number(3), number(1)])
        return target.get_dummy_value()

    return types.void(array, index), generate
