"""The figures, and how each is drawn from what runs have left."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Float

from ardm.apps.report.figures import draw_losses, draw_matrices, draw_plan
from ardm.apps.report.paper.evidence import Chains, Evidence, Profile, TextChain
from ardm.apps.report.paper.runs import find
from ardm.depth import BaseDepthMap
from ardm.media.images.pictures import grid, write_png
from ardm.planner import plan
from ardm.profile import monotone

Content = TypeVar("Content")
Matrix = Float[np.ndarray, "V V"]

ENLARGED = 4
"""Pixels of a picture for one of a chain's images."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A figure as it is shown: a picture, or lines of text."""

    picture: Path | None = None
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Figure(ABC, Generic[Content]):
    """A figure of the paper, of our own runs."""

    name: str
    caption: str
    of: str | None = None
    """RUN/MEASUREMENT that it is drawn from; None for what needs no run."""

    @abstractmethod
    def read(self, evidence: Evidence) -> Content | None:
        """What it is drawn from; None where that has not been measured."""

    @abstractmethod
    def show(self, content: Content, folder: Path) -> Shown:
        """Draw it, a picture to the folder."""

    @property
    def source(self) -> str:
        """RUN/MEASUREMENT, of a figure that has one."""
        assert self.of is not None
        return self.of

    def picture(self, folder: Path) -> Path:
        """Where its picture goes."""
        return folder / f"{self.name}.png"


class LossFigure(Figure[Profile]):
    """The loss of each step."""

    def read(self, evidence: Evidence) -> Profile | None:
        """The measured profile."""
        return evidence.profile(find(self.source)[0].name)

    def show(self, content: Profile, folder: Path) -> Shown:
        """Stairs, a stage beside the other."""
        draw_losses(content, self.picture(folder))
        return Shown(picture=self.picture(folder))


@dataclass(frozen=True, kw_only=True)
class PlanFigure(LossFigure):
    """The schedule that is planned from a profile."""

    num_calls: int

    def show(self, content: Profile, folder: Path) -> Shown:
        """The profile made monotone, and the plan from it."""
        losses = monotone(content, method="smooth")
        draw_plan(losses, plan(losses, self.num_calls), self.picture(folder))
        return Shown(picture=self.picture(folder))


@dataclass(frozen=True, kw_only=True)
class MatrixFigure(Figure[Sequence[Matrix]]):
    """The transition matrices of a depth map."""

    num_classes: int
    base: int

    def read(self, evidence: Evidence) -> Sequence[Matrix]:
        """One for each stage, from no run."""
        depth = BaseDepthMap(self.num_classes, self.base)
        return [depth.transition_matrix(stage).numpy() for stage in range(depth.num_stages)]

    def show(self, content: Sequence[Matrix], folder: Path) -> Shown:
        """One beside the other."""
        draw_matrices(content, self.picture(folder))
        return Shown(picture=self.picture(folder))


class TextChainFigure(Figure[TextChain]):
    """Texts as they come about."""

    def read(self, evidence: Evidence) -> TextChain | None:
        """The sampled texts."""
        return evidence.text_chain(self.source)

    def show(self, content: TextChain, folder: Path) -> Shown:
        """The states of each sample, one below the other."""
        heads = [f"call {call:>4}  " for call in content.calls] or [""] * len(content.chains[0])
        blocks = ["\n".join(map(str.__add__, heads, chain)) for chain in content.chains]
        return Shown(text="\n\n".join(blocks))


class ImageChainFigure(Figure[Chains]):
    """Images as they come about."""

    def read(self, evidence: Evidence) -> Chains | None:
        """The sampled images."""
        return evidence.image_chains(self.source)

    def show(self, content: Chains, folder: Path) -> Shown:
        """A row for each sample, enlarged."""
        states = content.reshape(-1, *content.shape[2:])
        enlarged = np.repeat(np.repeat(states, ENLARGED, axis=1), ENLARGED, axis=2)
        write_png(self.picture(folder), grid(enlarged, columns=content.shape[1]))
        return Shown(picture=self.picture(folder))


HEIGHTS = "Loss components over the steps; heights are such that their mean is the bits of a variable"
FIGURES: tuple[Figure[Any], ...] = (
    LossFigure(name="loss-text8-oa", caption=f"{HEIGHTS}: OA-ARDM of text8", of="text8-oa/bits"),
    LossFigure(name="loss-cifar10-oa", caption=f"{HEIGHTS}: OA-ARDM of CIFAR-10", of="cifar10-oa/bits"),
    LossFigure(
        name="loss-cifar10-upscale4",
        caption=f"{HEIGHTS}: ARDM-Upscale 4 of CIFAR-10, four stages",
        of="cifar10-upscale4/bits",
    ),
    PlanFigure(
        name="plan-text8-oa",
        caption="The planned schedule of the OA-ARDM of text8 in 20 calls; steps of one height share a call",
        of="text8-oa/bits",
        num_calls=20,
    ),
    PlanFigure(
        name="plan-cifar10-upscale4",
        caption="The planned schedule of the ARDM-Upscale 4 of CIFAR-10 in 40 calls",
        of="cifar10-upscale4/bits",
        num_calls=40,
    ),
    MatrixFigure(
        name="matrices-2",
        caption="Bit upscaling: the transition matrices of eight classes and three stages; coloured entries are ones",
        num_classes=8,
        base=2,
    ),
    MatrixFigure(
        name="matrices-4",
        caption="Upscaling by 4: the transition matrices of sixteen classes and two stages",
        num_classes=16,
        base=4,
    ),
    TextChainFigure(
        name="chain-text8-oa",
        caption="Two texts as the OA-ARDM of text8 generates them; _ is hidden",
        of="text8-oa/chain",
    ),
    ImageChainFigure(
        name="chain-cifar10-upscale4",
        caption="Two images as the ARDM-Upscale 4 of CIFAR-10 generates them, from the first of 400 calls on",
        of="cifar10-upscale4/chain",
    ),
    ImageChainFigure(
        name="chain-cifar10-oa",
        caption="Two images as the OA-ARDM of CIFAR-10 generates them, from the first of 200 calls on; grey is hidden",
        of="cifar10-oa/chain",
    ),
)
