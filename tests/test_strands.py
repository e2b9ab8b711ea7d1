"""Texts in windows of strands: each layout against a plain sort of (window, place in strand, strand)."""

import itertools

import pytest
import torch

from ardm.strands import (
    RASTER_SHARE,
    characters_before,
    random_layout,
    strand_calls,
    strand_layout,
    training_windows,
    uniform_layout,
    window_calls,
)

CPU = torch.device("cpu")
SIZES = [(d, w, length) for d in (1, 2, 5, 6, 11) for w in (1, 2, 4, 6, 11) for length in (1, 2, 3, 5, 11)]


def sorted_order(num_variables: int, window: int, length: int) -> list[int]:
    """The positions, sorted by window, then by place in the strand, then by strand."""
    length = min(window, length)

    def key(position: int) -> tuple[int, int, int]:
        offset = position % window
        return position // window, offset % length, offset // length

    return sorted(range(num_variables), key=key)


@pytest.mark.parametrize(("num_variables", "window", "length"), SIZES)
def test_the_order_is_that_of_a_sort(num_variables: int, window: int, length: int) -> None:
    layout = uniform_layout(2, num_variables, window, length, CPU)
    assert layout.order.tolist() == [sorted_order(num_variables, window, length)] * 2
    assert (layout.rank.gather(1, layout.order) == torch.arange(num_variables)).all()


@pytest.mark.parametrize(("num_variables", "window", "length"), SIZES)
def test_a_character_follows_those_of_its_strand(num_variables: int, window: int, length: int) -> None:
    num_before = uniform_layout(1, num_variables, window, length, CPU).num_before[0].tolist()
    for position in range(num_variables):
        offset = position % window
        is_first_strand = offset < min(window, length)
        assert num_before[position] == (position if is_first_strand else offset % min(window, length))


def test_what_precedes_a_character_is_revealed_before_it() -> None:
    for num_variables, window, length in SIZES:
        layout = uniform_layout(1, num_variables, window, length, CPU)
        rank, num_before = layout.rank[0], layout.num_before[0]
        for position in range(num_variables):
            for distance in range(1, int(num_before[position]) + 1):
                assert rank[position - distance] < rank[position]


def test_rows_have_layouts_of_their_own() -> None:
    windows, lengths = torch.tensor([4, 6, 6]), torch.tensor([2, 3, 6])
    layout = strand_layout(6, windows, lengths)
    for row, (window, length) in enumerate(zip(windows.tolist(), lengths.tolist(), strict=True)):
        assert layout.order[row].tolist() == sorted_order(6, window, length)


def test_the_character_before() -> None:
    x, num_before = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[0, 1, 0, 1]])
    assert characters_before(x, num_before, start=9).tolist() == [[9, 1, 9, 3]]
    after = torch.tensor([[7, 8, 0, 1]])  # the text before had seven characters, and 5 was its last
    assert characters_before(x, after, start=9, last=torch.tensor([5])).tolist() == [[5, 1, 9, 3]]


@pytest.mark.parametrize(("num_variables", "window", "length"), SIZES)
def test_calls_reveal_everything_in_sequence(num_variables: int, window: int, length: int) -> None:
    whole = window_calls(num_variables, window, length, CPU)
    parts = strand_calls(num_variables, window, length, CPU)
    for calls in (whole, parts):
        assert torch.cat([call.positions for call in calls]).tolist() == sorted_order(num_variables, window, length)
    in_window = {start: len([*group]) for start, group in itertools.groupby(parts, lambda call: call.window_start)}
    for call in whole:
        assert in_window[call.window_start] == min(length, window, len(call.positions))


def test_training_draws_every_length() -> None:
    places = torch.linspace(0, 0.9999, 4000, dtype=torch.float64)
    layout = random_layout(250, places, torch.zeros(4000, dtype=torch.int64))
    strand = (layout.num_before == 0).sum(1)
    assert (strand == 1).float().mean() == pytest.approx(RASTER_SHARE, abs=0.01)
    assert set(strand.tolist()) >= {1, 2, 3, 5, 25}
    assert strand.max() == 25  # strands of ten


def test_training_windows() -> None:
    assert training_windows(250) == [250]
    assert training_windows(512) == [512, 256]
    assert training_windows(1024) == [1024, 512, 256]
    assert training_windows(4096) == [4096, 2048, 1024]
