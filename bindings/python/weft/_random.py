"""Seeds and generators of random numbers.

Without a generator an operation draws from its device's own stream, which manual_seed begins again.
"""
import operator
import os

from . import _devices

_RANGE = (-(2**63), 2**64)


def _seed(value):
    seed = operator.index(value)
    if not _RANGE[0] <= seed < _RANGE[1]:
        raise ValueError(f"seed: {seed} is outside {_RANGE[0]} .. {_RANGE[1] - 1}")
    return seed % 2**64


def _signed(value):
    return value - 2**64 if value >= 2**63 else value


class Generator:
    """A stream of random numbers and the place in it, for the keyword `generator` of every operation that draws."""

    def __init__(self, seed=0):
        self.manual_seed(seed)

    def manual_seed(self, seed):
        """Begin the stream of that seed; returns the generator."""
        self.__dict__.update(_seed=_signed(_seed(seed)), _offset=0)
        return self

    def initial_seed(self):
        return self._seed % 2**64

    def seed(self):
        """Begin the stream of a seed from the system; returns the seed."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self.initial_seed()

    def get_state(self):
        """The seed and how many values were drawn."""
        return self.initial_seed(), self._offset

    def set_state(self, state):
        seed, offset = state
        self.manual_seed(seed)
        self._offset = operator.index(offset)

    def _advance(self, n):
        self._offset += n

    def __repr__(self):
        return f"weft.Generator(seed={self.initial_seed()}, offset={self._offset})"


class _Default:
    """The devices' own streams together."""

    def manual_seed(self, seed):
        """Begin the own stream of every device, of those opened later too."""
        _devices.seed_all(_seed(seed))
        return self

    def initial_seed(self):
        return _devices.initial_seed()

    def seed(self):
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self.initial_seed()

    def __repr__(self):
        return f"weft.default_generator(seed={self.initial_seed()})"


default_generator = _Default()


def manual_seed(seed):
    """Begin the own stream of random numbers of every device again; returns the default generator."""
    return default_generator.manual_seed(seed)


def initial_seed():
    """The seed of the devices' own streams."""
    return default_generator.initial_seed()


def seed():
    """Seed the devices' own streams from the system; returns the seed."""
    return default_generator.seed()
