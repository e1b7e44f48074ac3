"""Where the kernels run: on a GPU if there is one, else in Triton's interpreter, which ``tests/conftest.py`` turns on."""

import functools
import importlib.util

import numpy as np
import pytest
import torch

GPU = torch.cuda.is_available()


@pytest.fixture(params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Every test that takes it runs in the interpreter by default, and on CUDA under ``-m gpu``."""
    pytest.importorskip("triton", reason="triton is not installed")
    if request.param == "cuda":
        if not GPU:
            pytest.skip("no CUDA device")
        return torch.device("cuda")
    if GPU:
        pytest.skip("kernels are compiled on this machine; run the tests marked gpu")
    return torch.device("cpu")


def _scan_in_a_tree(self, tensors):
    """The interpreter scans one element after another, so that a combination which is not associative would pass, slowly.

    Here every element is combined with the one ``1, 2, 4, ...`` places before it, as the lanes of a warp do.
    """
    arrays = [t.handle.data for t in tensors]
    place = np.arange(arrays[0].size)
    assert arrays[0].ndim == 1
    step = 1
    while step < arrays[0].size:
        earlier = [self.to_tensor(np.roll(a, step), t.dtype) for a, t in zip(arrays, tensors, strict=True)]
        later = [self.to_tensor(a, t.dtype) for a, t in zip(arrays, tensors, strict=True)]
        joined = self.combine_fn.fn(*earlier, *later)
        arrays = [np.where(place >= step, j.handle.data, a) for j, a in zip(joined, arrays, strict=True)]
        step *= 2
    return [self.to_tensor(a, t.dtype) for a, t in zip(arrays, tensors, strict=True)]


def _patched_once(patch_language, executor):
    """The interpreter makes its language anew at every call of a device function, which takes half of the time; once will do."""
    call, seen = executor.__call__, set()

    @functools.cache
    def languages(function):
        return frozenset(id(m) for m in function.__globals__.values() if getattr(m, "__name__", "").startswith("triton.language"))

    def patch_unless_seen(function):
        scope = patch_language(function) if languages(function) not in seen else None
        seen.add(languages(function))
        return scope

    def forget_after(self, *args, **kwargs):
        try:
            return call(self, *args, **kwargs)
        finally:
            seen.clear()

    return patch_unless_seen, forget_after


@pytest.fixture(scope="session", autouse=True)
def _interpreter():
    if GPU or importlib.util.find_spec("triton") is None:
        yield
        return
    from triton.language import standard
    from triton.runtime import interpreter

    assert isinstance(standard.sort, interpreter.InterpretedFunction), "triton was imported before its interpreter was on"
    patch_unless_seen, forget_after = _patched_once(interpreter._patch_lang, interpreter.GridExecutor)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter.ScanOps, "generic_scan", _scan_in_a_tree)
        patch.setattr(interpreter, "_patch_lang", patch_unless_seen)
        patch.setattr(interpreter.GridExecutor, "__call__", forget_after)
        yield
