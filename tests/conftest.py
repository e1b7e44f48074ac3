"""One thread everywhere, before torch is imported: tests are small, and results must not depend on the machine."""

import os

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import torch  # noqa: E402

torch.set_num_threads(1)

if not torch.cuda.is_available():
    # Triton reads it when it is imported, which other libraries may do before the tests of kernels begin.
    os.environ["TRITON_INTERPRET"] = "1"
