"""What every data set offers: its items for evaluation, and random ones for training."""

from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from ardm.data.alphabet import Alphabet
from ardm.orders import Shape

Split = Literal["train", "valid", "test", "all"]
"""What is done to training items at random: nothing, flips (images left to right, sounds upside down), and for images
also turns by 90 degrees."""


@runtime_checkable
class Items(Protocol):
    """Items of one shape, one a row: an array, or what is read from disk when it is asked for."""

    def __len__(self) -> int:
        """N."""

    def __getitem__(self, index: Any, /) -> Any:
        """An array of rows for a slice or a list of numbers, or one row for a number."""


@runtime_checkable
class Sampler(Protocol):
    """Random training items."""

    def draw(self, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
        """Items on the generator's device."""


@runtime_checkable
class Corpus(Protocol):
    """A data set in three splits."""

    @property
    def title(self) -> str:
        """Its name, as results are reported for it."""

    @property
    def is_published(self) -> bool:
        """Whether its splits are those that everybody reports results for."""

    @property
    def num_classes(self) -> int:
        """K."""

    @property
    def alphabet(self) -> Alphabet | None:
        """What the classes of a text stand for."""

    @property
    def sample_rate(self) -> int | None:
        """Samples in a second of sound."""

    @property
    def fingerprint(self) -> str:
        """A hash of its content, to recognise the data a model was trained on."""

    def items(self, name: Split, shape: Shape) -> Items:
        """The split cut into items of one shape."""

    def sampler(self, shape: Shape, device: torch.device) -> Sampler:
        """Random items of the training split."""


def on_device_if_it_fits(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device, or where it is if it would take more than half of the device's free memory."""
    if device.type == "cuda" and tensor.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
        return tensor
    return tensor.to(device)


def compact_tensor(classes: Integer[np.ndarray, "..."]) -> Integer[Tensor, "..."]:
    """An array of classes as a tensor of few bytes."""
    compact = classes if classes.dtype.itemsize == 1 else classes.astype("int32")
    return torch.from_numpy(compact.copy())
