"""Kernels compiled ahead of time, for GPUs that are not there: what they need and what they are made of."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from statetrack.errors import BackendError
from statetrack.scan.triton.launch import Argument, Launch, reals

_POINTERS = {
    torch.float64: "*fp64",
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
_ALIGNMENT = 16
"""Bytes, and the factor that integers are told to have where they have it, as at a real launch."""

_GROUPS = {
    "global": ("LDG", "STG"),
    "shared": ("LDS", "STS", "LDSM", "STSM"),
    "shuffle": ("SHFL",),
    "arithmetic": ("FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA"),
    "select": ("SEL", "FSEL"),
    "barrier": ("BAR",),
    "atomic": ("ATOM", "ATOMG", "ATOMS", "RED"),
    "spill": ("LDL", "STL"),
}


@dataclass(frozen=True)
class Resources:
    """Attributes:
    registers: per thread.
    spilled: bytes of local memory per thread.
    shared: bytes of shared memory per program.
    instructions: static count of machine instructions, padding left out.
    mix: static counts of the groups that matter.
    """

    registers: int
    spilled: int
    shared: int
    instructions: int
    mix: dict[str, int]


def compile_ahead(launch: Launch, capability: int) -> Resources:
    """Compile what ``launch`` would run, for compute capability ``capability`` (80, 90); its tensors may be on "meta".

    Raises:
        BackendError: Triton interprets its kernels in this process, so that there is nothing to compile.
    """
    if not isinstance(launch.kernel, triton.JITFunction):
        raise BackendError("kernels cannot be compiled while TRITON_INTERPRET=1. Unset it and start Python anew.")
    signature: dict[str, str] = {}
    constants, facts = dict(launch.constants), {}
    for place, name in enumerate(launch.kernel.arg_names):
        given = launch.arguments.get(name)
        if name in constants or given is None or (isinstance(given, int) and given == 1):
            constants.setdefault(name, given)
            signature[name] = "constexpr"
            continue
        signature[name] = _type_of(given)
        if isinstance(given, Tensor) or given % _ALIGNMENT == 0:
            facts[(place,)] = [["tt.divisibility", _ALIGNMENT]]
    source = ASTSource(launch.kernel, signature, constants, facts)
    options = {"num_warps": launch.num_warps, "enable_fp_fusion": True}
    return _resources(triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options))


def _type_of(given: Argument) -> str:
    if isinstance(given, Tensor):
        return _POINTERS[reals(given).dtype]
    return "i32" if abs(given or 0) < 1 << 31 else "i64"


def _resources(compiled: Any) -> Resources:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(compiled.asm["cubin"])
        usage = _tool("cuobjdump", "-res-usage", path)
        listing = _tool("nvdisasm", "-c", path)
    registers, stack, local = (int(re.search(rf"{key}:(\d+)", usage)[1]) for key in ("REG", "STACK", "LOCAL"))  # type: ignore[index]
    names = re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_]*)", listing, re.MULTILINE)
    count = Counter(name for name in names if name != "NOP")
    mix = {group: sum(count[name] for name in members) for group, members in _GROUPS.items()}
    return Resources(registers, stack + local, compiled.metadata.shared, count.total(), mix)


def _tool(name: str, *arguments: str | Path) -> str:
    """Output of one of the CUDA tools that Triton brings along."""
    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=True).stdout
