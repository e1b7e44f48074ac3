"""Eigenvalues of transitions: of single tokens, of products along words, and the growth rates of long products."""

from statetrack.analysis.spectra.lyapunov import lyapunov_exponents
from statetrack.analysis.spectra.products import product_spectrum
from statetrack.analysis.spectra.spectrum import Shares, Spectrum, spectrum, transition_spectrum, word_spectrum

__all__ = [
    "Shares",
    "Spectrum",
    "lyapunov_exponents",
    "product_spectrum",
    "spectrum",
    "transition_spectrum",
    "word_spectrum",
]
