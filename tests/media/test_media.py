"""What media share: which steps fill gaps, and whether a path holds the data set that a model is for."""

import numpy as np
import pytest

from ardm.config import ImageData, SoundData, TextData
from ardm.media import has_corpus
from ardm.media.medium import GappedItem


@pytest.mark.parametrize(("num_stages", "last"), [(1, 5), (3, 8)])
def test_gaps_are_filled_after_what_is_known(num_stages, last):
    known = np.array([True, False, True, False, True, False, False, False])
    gaps = GappedItem(values=np.zeros(8, np.int64), known=known, shape=(8,), length=5)
    assert gaps.steps(num_stages) == (3, last)


def test_a_published_data_set_is_recognised(tmp_path):
    cifar10, sc09, text8 = (
        ImageData(kind="cifar10", height=32, width=32),
        SoundData(kind="sc09", num_variables=16_000),
        TextData(kind="text8", num_variables=250),
    )
    for data in (cifar10, sc09, text8):
        assert not has_corpus(data, tmp_path)
        assert not has_corpus(data, tmp_path / "nothing")
    for name in ("test_batch.bin", "validation_list.txt", "testing_list.txt", "text8", "other.txt"):
        (tmp_path / name).write_text("")
    for data in (cifar10, sc09, text8):
        assert has_corpus(data, tmp_path)
        assert not has_corpus(data, tmp_path / "other.txt")
    assert has_corpus(text8, tmp_path / "text8")


def test_any_data_may_be_ones_own(tmp_path):
    for data in (
        ImageData(kind="images", height=8, width=8),
        SoundData(kind="audio", num_variables=8),
        TextData(kind="bytes", num_variables=8),
    ):
        assert has_corpus(data, tmp_path)
