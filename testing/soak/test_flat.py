"""What counts as flat, as a table."""

import pytest

from flat import Allowance, floors, judge, percentiles

LITTLE = Allowance(units=10, share=0.1)


def samples(value, count=90):
    return [(second, value(second)) for second in range(count)]


@pytest.mark.parametrize("name, value, is_flat", [
    ("constant", lambda s: 1000, True),
    ("falls", lambda s: 2000 - s, True),
    ("grows while it warms up", lambda s: min(s, 30) * 100, True),
    ("one spike late", lambda s: 9000 if s == 80 else 1000, True),
    ("noise around a constant", lambda s: 1000 + (s * 37) % 90, True),
    ("grows within the allowance", lambda s: 1000 + s, True),
    ("a slow leak", lambda s: 1000 + 4 * s, False),
    ("a leak from zero", lambda s: s, False),
    ("a step that stays", lambda s: 1000 if s < 60 else 1200, False),
    ("a leak under noise", lambda s: 1000 + 8 * s + (s * 37) % 90, False),
])
def test_flat(name, value, is_flat):
    verdict = judge(samples(value), LITTLE)
    assert verdict.is_flat is is_flat, (name, verdict)


@pytest.mark.parametrize("some", [[], [(0, 1)], [(second, 1) for second in range(7)]])
def test_too_few_to_say(some):
    assert judge(some, LITTLE) is None


def test_the_allowance_is_the_larger_of_both():
    assert LITTLE.over(50) == 10
    assert LITTLE.over(1000) == 100


def test_floors_forget_bursts_and_keep_what_stays():
    bursts = [(second, 20 + (300 if second % 10 == 3 else 0)) for second in range(40)]
    assert floors(bursts, 10) == [(0, 20), (10, 20), (20, 20), (30, 20)]
    leaks = [(second, 20 + second) for second in range(40)]
    assert floors(leaks, 10) == [(0, 20), (10, 30), (20, 40), (30, 50)]


def test_percentiles_by_stretch():
    some = [(0, 5), (1, 1), (2, 3), (10, 7), (11, 9)]
    assert percentiles(some, 10, 50) == [(0, 3), (10, 7)]
    assert percentiles(some, 10, 100) == [(0, 5), (10, 9)]
