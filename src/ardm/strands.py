"""Texts in windows that are cut into strands: when each character is revealed, and what lies before it.

A text of T characters is cut into windows of W characters, and each window into strands of L neighbours; the last ones
may be shorter. Call j of a window reveals place j of all its strands, so that L calls reveal the window. With L = W
the order is left to right.

Notation
    rank        of a character: its number in the sequence of (window, place in the strand, strand)
    order       the inverse: the position of the character with each rank
    num_before  the number of characters before it in its strand or, in the first strand of a window, in the text

The characters of a call have neighbouring ranks. A network that sees ranks up to its own, each through the character
*before* it in its strand, thus sees earlier calls only.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ardm.orders import MIN_STRAND, ranks


@dataclass(frozen=True)
class StrandLayout:
    """The sequence in which the characters of texts are revealed: one row per text.

    >>> import torch
    >>> from ardm.strands import strand_layout
    >>> layout = strand_layout(5, windows=torch.tensor([5]), lengths=torch.tensor([2]))
    >>> layout.order.tolist(), layout.rank.tolist(), layout.num_before.tolist()
    ([[0, 2, 4, 1, 3]], [[0, 3, 1, 4, 2]], [[0, 1, 0, 1, 0]])
    """

    order: Int[Tensor, "B T"]
    rank: Int[Tensor, "B T"]
    num_before: Int[Tensor, "B T"]


def strand_layout(num_variables: int, windows: Int[Tensor, "B"], lengths: Int[Tensor, "B"]) -> StrandLayout:
    """The layout of texts of T characters with a window and a strand length for each.

    >>> import torch
    >>> from ardm.strands import strand_layout
    >>> strand_layout(6, windows=torch.tensor([4]), lengths=torch.tensor([2])).order.tolist()
    [[0, 2, 1, 3, 4, 5]]
    """
    windows, lengths = windows[:, None], torch.minimum(lengths, windows)[:, None]
    position = torch.arange(num_variables, device=windows.device)
    offset, first = position % windows, position // windows * windows
    size = torch.minimum(windows, num_variables - first)
    place, strand = offset % lengths, offset // lengths
    rank = first + place * (size // lengths) + torch.minimum(place, size % lengths) + strand
    num_before = torch.where(strand == 0, position, place)
    return StrandLayout(order=ranks(rank), rank=rank, num_before=num_before)


def uniform_layout(num_items: int, num_variables: int, window: int, length: int, device: torch.device) -> StrandLayout:
    """The layout of texts that all have the same window and strand length.

    >>> import torch
    >>> from ardm.strands import uniform_layout
    >>> uniform_layout(1, 4, window=4, length=4, device=torch.device("cpu")).order.tolist()
    [[0, 1, 2, 3]]
    """
    windows, lengths = (torch.full((num_items,), number, device=device) for number in (window, length))
    return strand_layout(num_variables, windows, lengths)


def characters_before(
    x: Int[Tensor, "B T"], num_before: Int[Tensor, "B T"], start: int, last: Int[Tensor, "B"] | None = None
) -> Int[Tensor, "B T"]:
    """The character before each one in its strand, and `start` where there is none.

    A text that continues an earlier one begins after that one's `last` character.

    >>> import torch
    >>> from ardm.strands import characters_before
    >>> characters_before(torch.tensor([[5, 6, 7]]), torch.tensor([[0, 1, 0]]), start=9).tolist()
    [[9, 5, 9]]
    """
    shifted = F.pad(x[:, :-1], (1, 0), value=start)
    if last is not None:
        shifted = torch.cat([last[:, None], shifted[:, 1:]], dim=1)
    return torch.where(num_before > 0, shifted, start)


RASTER_SHARE = 0.25
"""Share of the texts that training takes from left to right."""
MIN_WINDOW = 256
"""Training cuts items of at least twice this length into windows, too."""
MAX_HALVINGS = 2
"""How often training halves an item, at most, to get its windows."""


def training_windows(num_variables: int) -> list[int]:
    """The sizes of windows in training: an item as a whole, and halves and quarters that are not too short.

    >>> from ardm.strands import training_windows
    >>> training_windows(250), training_windows(1024)
    ([250], [1024, 512, 256])
    """
    sizes = [num_variables >> halvings for halvings in range(MAX_HALVINGS + 1)]
    return [size for size in sizes if size >= MIN_WINDOW or size == num_variables]


def random_layout(num_variables: int, places: Float[Tensor, "B"], window_numbers: Int[Tensor, "B"]) -> StrandLayout:
    """The layout of training items: windows by their numbers, and strand lengths by places in [0, 1).

    Strands below `RASTER_SHARE` are whole windows; the logarithms of others are uniform.

    >>> import torch
    >>> from ardm.strands import random_layout
    >>> random_layout(40, torch.tensor([0.2, 0.3]), torch.tensor([0, 0])).num_before.amax(1).tolist()
    [39, 9]
    """
    sizes = torch.tensor(training_windows(num_variables), device=places.device)
    windows = sizes[window_numbers]
    least = windows.clamp(max=MIN_STRAND).double()
    power = (places - RASTER_SHARE) / (1 - RASTER_SHARE)
    lengths = (least * ((windows + 1) / least) ** power).long().minimum(windows)
    return strand_layout(num_variables, windows, torch.where(places < RASTER_SHARE, windows, lengths))


@dataclass(frozen=True)
class Call:
    """Characters that a call reveals together, or all calls of a window, in the sequence of their ranks."""

    positions: Int[Tensor, "N"]
    num_before: Int[Tensor, "N"]
    window_start: int
    """Position of the first character of the window."""


def window_calls(num_variables: int, window: int, length: int, device: torch.device) -> list[Call]:
    """All characters of each window in one call, as for a text that is known.

    >>> import torch
    >>> from ardm.strands import window_calls
    >>> [call.positions.tolist() for call in window_calls(6, window=4, length=2, device=torch.device("cpu"))]
    [[0, 2, 1, 3], [4, 5]]
    """
    layout = uniform_layout(1, num_variables, window, length, device)
    parts = layout.order[0].split(window)
    return [Call(part, layout.num_before[0, part], number * window) for number, part in enumerate(parts)]


def strand_calls(num_variables: int, window: int, length: int, device: torch.device) -> list[Call]:
    """One place of every strand in each call, window after window, as for a text that is drawn.

    >>> import torch
    >>> from ardm.strands import strand_calls
    >>> [call.positions.tolist() for call in strand_calls(6, window=4, length=2, device=torch.device("cpu"))]
    [[0, 2], [1, 3], [4], [5]]
    """
    calls = []
    for whole in window_calls(num_variables, window, length, device):
        place = (whole.positions - whole.window_start) % min(length, window)
        sizes: list[int] = place.unique_consecutive(return_counts=True)[1].tolist()
        parts = zip(whole.positions.split(sizes), whole.num_before.split(sizes), strict=True)
        calls += [Call(positions, num_before, whole.window_start) for positions, num_before in parts]
    return calls
