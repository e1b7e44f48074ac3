"""CPU kernels: numba loops behind ``torch.library`` custom ops, forward and backward."""
