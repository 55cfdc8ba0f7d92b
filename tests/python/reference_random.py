"""References of the section random; harness.py says how to add one."""
from harness import ALL, FLOATS, INTEGERS, NUMBERS, reference  # noqa: F401
