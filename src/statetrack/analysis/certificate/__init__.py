"""Proofs that a trained network is right on words of every length, and words that refute it."""
