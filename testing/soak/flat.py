"""The judge of a long run: whether a figure stayed flat. Pure functions over samples; test_flat.py is their table.

The rule. The first third of the run is warm-up: caches fill, tables reach their sizes. The rest is cut into two halves;
of each half the median counts, so that a burst of traffic says nothing. The figure is flat if the second median is above the
first by no more than the allowance: so much in all, or such a share of the first median, whichever is more.
"""

from statistics import median
from typing import NamedTuple

WARM_UP = 1 / 3


class Allowance(NamedTuple):
    """How much more the end may be than the beginning."""

    units: float
    share: float

    def over(self, base):
        return max(self.units, base * self.share)


class Verdict(NamedTuple):
    first: float
    last: float
    allowed: float

    @property
    def growth(self):
        return self.last - self.first

    @property
    def is_flat(self):
        return self.growth <= self.allowed


def judge(samples, allowance):
    """`samples`: (seconds, value) in order of time. None if there are too few to say anything."""
    if not samples:
        return None
    begin, end = samples[0][0], samples[-1][0]
    warm = begin + (end - begin) * WARM_UP
    middle = warm + (end - warm) / 2
    first = [value for seconds, value in samples if warm <= seconds < middle]
    last = [value for seconds, value in samples if seconds >= middle]
    if len(first) < 3 or len(last) < 3:
        return None
    before = median(first)
    return Verdict(before, median(last), allowance.over(before))


def floors(samples, seconds):
    """The lowest value of each stretch of so many seconds: what is left of a count when bursts of clients have gone."""
    lowest = {}
    for moment, value in samples:
        stretch = int(moment // seconds)
        lowest[stretch] = min(value, lowest.get(stretch, value))
    return [(stretch * seconds, value) for stretch, value in sorted(lowest.items())]


def percentiles(samples, seconds, percent):
    """That percentile of each stretch of so many seconds."""
    stretches = {}
    for moment, value in samples:
        stretches.setdefault(int(moment // seconds), []).append(value)
    return [(stretch * seconds, sorted(values)[(len(values) - 1) * percent // 100])
            for stretch, values in sorted(stretches.items())]
