"""Automata of trained networks: read off their selections, or learnt from their answers."""
