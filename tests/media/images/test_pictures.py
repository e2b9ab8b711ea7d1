"""Pictures as arrays: grids and PNG files."""

import numpy as np
import pytest

from ardm.data.images import read_image
from ardm.media.images.pictures import GAP, grid, write_png


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
