"""Pictures as arrays: grids and spectrograms."""

from itertools import pairwise

import numpy as np
import pytest

from ardm.data.images import read_image
from ardm.media.pictures import COLOURS, GAP, grid, spectrogram, write_png


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


def test_a_grid_places_images_in_rows_on_white():
    images = np.random.default_rng(0).integers(0, 255, (5, 3, 4, 3), dtype=np.uint8)
    picture = grid(images, columns=2)
    assert picture.shape == (3 * 3 + 2 * GAP, 2 * 4 + GAP, 3)
    rest = np.ones(picture.shape[:2], bool)
    for i, (row, column) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]):
        top, left = row * (3 + GAP), column * (4 + GAP)
        assert np.array_equal(picture[top : top + 3, left : left + 4], images[i])
        rest[top : top + 3, left : left + 4] = False
    assert (picture[rest] == 255).all()


def test_a_grid_has_no_more_columns_than_images():
    images = np.zeros((2, 3, 4, 1), np.uint8)
    assert grid(images, columns=9).shape == (3, 2 * 4 + GAP, 1)
    assert grid(images, columns=0).shape == (2 * 3 + GAP, 4, 1)
    assert np.array_equal(grid(images[:1], columns=9), images[0])


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_written_exactly(tmp_path, channels):
    picture = np.random.default_rng(0).integers(0, 256, (5, 6, channels), dtype=np.uint8)
    write_png(tmp_path / "a.png", picture)
    assert np.array_equal(read_image(tmp_path / "a.png", channels), picture)
