"""The truth about concurrency: a process outside the library that counts who is inside."""

from .client import Counter
from .process import CounterServer

__all__ = ["Counter", "CounterServer"]
