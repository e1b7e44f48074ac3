"""GPU kernels: Triton programs behind ``torch.library`` custom ops, forward and backward.

Nothing here is imported before a scan asks for it: ``triton`` is an optional package.
"""
