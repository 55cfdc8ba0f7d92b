"""References of the section convolution; harness.py says how to add one."""
from harness import ALL, FLOATS, INTEGERS, NUMBERS, reference  # noqa: F401
