"""Spectrograms: where sounds appear in them, and where the axes say that they do."""

from itertools import pairwise

import numpy as np
import pytest

from ardm.media.sounds.spectrograms import (
    BACKGROUND,
    COLOURS,
    FOREGROUND,
    TICK,
    WIDTH,
    Grid,
    Panel,
    coloured,
    draw_spectrograms,
    spectrogram,
    ticks,
)

RATE = 16_000


def sine(amplitude: float, cycles: int, window: int = 256, num_windows: int = 8) -> np.ndarray:
    """So many cycles in each window."""
    phase = 2 * np.pi * cycles * np.arange(num_windows * window) / window
    return np.rint(amplitude * np.sin(phase)).astype(np.int16)


def brightness(picture: np.ndarray) -> np.ndarray:
    return picture.astype(int).sum(axis=2)


@pytest.mark.parametrize("cycles", [3, 40, 64, 120])
def test_a_sine_is_a_line_at_its_frequency(cycles):
    picture = brightness(spectrogram(sine(20_000, cycles)))
    assert picture.shape == (129, 8 * 4 + 1)
    inner = picture[:, 4:-4]  # away from the silence around the sound
    assert (inner.argmax(axis=0) == 128 - cycles).all()  # the lowest frequency is the last row
    assert (np.delete(inner, range(126 - cycles, 131 - cycles), axis=0) < inner.max() / 3).all()


def test_a_sine_that_begins_late_is_to_the_right():
    picture = spectrogram(np.concatenate([np.zeros(1024, np.int16), sine(20_000, 30, num_windows=4)]))
    line = brightness(picture)[128 - 30]
    assert line[:14].max() == sum(COLOURS[0])
    assert line[20:-4].min() > 300


def test_silence_is_black():
    for picture in (spectrogram(np.zeros(1000, np.int16)), spectrogram(np.zeros(3, np.int16))):
        assert (picture == COLOURS[0]).all()


def test_louder_is_brighter():
    lines = [brightness(spectrogram(sine(amplitude, 40)))[128 - 40, 4:-4] for amplitude in (5, 50, 500, 5000, 32_000)]
    for quiet, loud in pairwise(lines):
        assert (quiet < loud).all()


@pytest.mark.parametrize(
    ("limit", "most", "expected"),
    [
        (1, 3, [0, 0.5, 1]),
        (1, 10, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (8, 5, [0, 2, 4, 6, 8]),
        (22.05, 5, [0, 10, 20]),
        (0.05, 5, [0, 0.02, 0.04]),
        (0.44, 3, [0, 0.25]),
        (0.3, 4, [0, 0.1, 0.2, 0.3]),
    ],
)
def test_ticks_are_round_numbers_up_to_the_limit(limit, most, expected):
    assert ticks(limit, most) == pytest.approx(expected)


@pytest.mark.parametrize("most", [3, 5, 9])
def test_there_are_always_two_ticks_and_never_too_many(most):
    for limit in np.geomspace(1e-4, 1e6, 500):
        shown = ticks(limit, most)
        assert 2 <= len(shown) <= most
        assert shown[-1] <= limit * (1 + 1e-6)


def beep(start: float, stop: float, frequency: float, seconds: float = 1.0) -> np.ndarray:
    """A tone between two times of a silent sound."""
    time = np.arange(round(seconds * RATE)) / RATE
    inside = (time >= start) & (time < stop)
    return (20_000 * np.sin(2 * np.pi * frequency * time) * inside).astype(np.int16)


@pytest.mark.parametrize(("seconds", "columns"), [(1.0, 1), (1.0, 3), (2.503, 2)])
def test_a_tone_is_where_the_axes_say(seconds, columns):
    """Its middle in time and its frequency, as shares of the panel's width and height."""
    start, stop, frequency = 0.6 * seconds, 0.7 * seconds, 3000
    panels = [Panel(sound=beep(start, stop, frequency, seconds), title=f"{i}") for i in range(4)]
    picture = draw_spectrograms(panels, columns, RATE)
    grid = Grid(len(panels), columns, has_titles=True)
    assert picture.shape == (grid.size[1], WIDTH, 3)
    for i in range(len(panels)):
        box = grid.box(i)
        panel = brightness(picture[box.top : box.top + box.height, box.left : box.left + box.width])
        row, column = (np.flatnonzero((panel > 400).any(axis=axis)) for axis in (1, 0))
        assert column.mean() / box.width == pytest.approx((start + stop) / 2 / seconds, abs=0.01)
        assert 1 - row.mean() / box.height == pytest.approx(frequency / (RATE / 2), abs=0.01)


def test_axes_are_at_the_left_and_below_the_lowest_panels():
    panels = [Panel(sound=beep(0, 1, 440), title=f"{i}") for i in range(5)]
    picture = draw_spectrograms(panels, 3, RATE)
    grid = Grid(5, 3, has_titles=True)
    for i in range(5):
        box = grid.box(i)
        beside = picture[box.top + box.height // 2, box.left - TICK : box.left]  # the tick of 4 kHz
        assert (beside == FOREGROUND).all() if i in (0, 3) else (beside == BACKGROUND).all()
        below = picture[box.top + box.height : box.top + box.height + TICK, box.left + box.width // 2]  # half a second
        assert (below == FOREGROUND).all() if i >= 2 else (below == BACKGROUND).all()


def test_labels_do_not_reach_into_panels_nor_out_of_the_picture():
    plain = [Panel(sound=beep(0.2, 0.4, 1000)) for _ in range(10)]
    named = [Panel(sound=p.sound, title="call 123456" if i < 5 else "", group="sample 64") for i, p in enumerate(plain)]
    pictures = [draw_spectrograms(panels, 5, RATE) for panels in (plain, named)]
    assert pictures[0].shape == pictures[1].shape
    grid = Grid(10, 5, has_titles=False)
    for i in range(10):
        box = grid.box(i)
        inside = slice(box.top, box.top + box.height), slice(box.left, box.left + box.width)
        assert np.array_equal(pictures[0][inside], pictures[1][inside])
    assert not np.array_equal(*pictures)
    for picture in pictures:
        edges = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
        assert (edges == BACKGROUND).all()


def test_the_scale_runs_from_loud_to_silent():
    picture = draw_spectrograms([Panel(sound=beep(0, 1, 440))], 1, RATE)
    box = Grid(1, 1, has_titles=False).box(0)
    scale = picture[box.top : box.top + box.height, box.left + box.width + 40]
    assert np.array_equal(scale, coloured(np.linspace(1, 0, box.height)[:, None])[:, 0])


@pytest.mark.parametrize("num_samples", [1, 63, 64, 65, 257])
def test_short_sounds_can_be_drawn(num_samples):
    assert draw_spectrograms([Panel(sound=np.ones(num_samples, np.int16))], 1, 8000).shape[1] == WIDTH
