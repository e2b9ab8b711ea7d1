"""Windows over arrays: each place is coded once, and the given places of a window have been decoded before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ardm.codec.windows import Canvas, bundles, cut, num_bundles, num_windows, paste, windows

SIZES = st.integers(1, 70)
LENGTHS = st.integers(1, 33)


@given(st.lists(st.tuples(SIZES, LENGTHS), min_size=1, max_size=2))
def test_every_place_is_coded_once_after_all_that_is_given(axes):
    size, shape = (tuple(axis) for axis in zip(*axes, strict=True))
    canvas = Canvas(values=np.zeros(size, np.int64))
    found = list(windows(size, shape))
    assert len(found) == num_windows(size, shape)
    assert all(window.wave <= len(size) for window in found)
    for wave in range(len(size) + 1):
        before = canvas.values.copy()
        for window in (window for window in found if window.wave == wave):
            item = cut(Canvas(values=before), window, shape)
            assert (item.x[item.given] == 1).all()
            coded = ~item.given & ~item.absent
            assert coded.any()
            assert (item.x[coded] == 0).all()
            assert (canvas.values[window.coded_area] == 0).all()
            paste(canvas, window, np.ones(int(np.prod(shape)), np.int64), shape)
    assert (canvas.values == 1).all()


@given(st.integers(1, 3000), st.integers(1, 400), st.sampled_from([(9, 17), (32, 32), (200, 100)]))
def test_bundles_hold_all_windows_wave_by_wave(height, width, shape):
    found = list(bundles((height, width), shape))
    assert len(found) == num_bundles((height, width), shape)
    assert all(len({window.wave for window in bundle}) == 1 for bundle in found)
    waves = [bundle[0].wave for bundle in found]
    assert waves == sorted(waves)
    assert max(map(len, found)) <= max(1, 2**14 // (shape[0] * shape[1]))
    flat = [window for bundle in found for window in bundle]
    assert flat == sorted(windows((height, width), shape), key=lambda window: window.wave)


@given(st.integers(1, 40), st.integers(1, 40))
def test_only_what_lies_beyond_the_array_is_absent(height, width):
    shape = (9, 17)
    canvas = Canvas(values=np.ones((height, width), np.int64))
    for window in windows((height, width), shape):
        item = cut(canvas, window, shape)
        assert (item.absent == (item.x == 0)).all()


def test_places_of_windows():
    """32 places, of which neighbours share 4: the example of docs/format.md."""
    spans = [
        (w.area[0].start, w.area[0].stop, w.coded_area[0].start, w.coded_area[0].stop) for w in windows((100,), (32,))
    ]
    assert spans == [(0, 32, 0, 32), (28, 60, 32, 56), (56, 88, 56, 88), (84, 100, 88, 100)]
    assert [w.wave for w in windows((100,), (32,))] == [0, 1, 0, 1]


def test_an_image_of_any_size_takes_three_waves():
    found = list(windows((500, 300, 3), (32, 32, 3)))
    assert {window.wave for window in found} == {0, 1, 2}
    assert len(found) == num_windows((500, 300, 3), (32, 32, 3)) == 18 * 11


@pytest.mark.parametrize(("size", "count"), [(1, 1), (32, 1), (33, 2), (60, 2), (61, 3)])
def test_numbers_of_windows(size, count):
    assert num_windows((size,), (32,)) == count


def test_hidden_places_are_absent_and_stay_out():
    canvas = Canvas(values=np.arange(40) % 7, hidden=np.arange(40) % 5 == 0)
    for window in windows((40,), (16,)):
        item = cut(canvas, window, (16,))
        places = np.arange(window.area[0].start, window.area[0].stop)
        assert (item.absent[: len(places)] == (places % 5 == 0)).all()
        assert not (item.given & item.absent).any()
