"""The figures, and how each is drawn from what runs have left."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ardm.depth import BaseDepthMap
from ardm.media.pictures import grid, write_png
from ardm.profiles import monotone
from ardm.report.figures import draw_losses, draw_matrices, draw_plan
from ardm.report.paper.evidence import Evidence
from ardm.report.paper.runs import find
from ardm.schedule import plan

ENLARGED = 4
"""Pixels of a picture for one of a chain's images."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A figure as it is shown: a picture, or lines of text."""

    picture: Path | None = None
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Figure(ABC):
    """A figure of the paper, of our own runs."""

    name: str
    caption: str
    of: str | None = None
    """RUN/MEASUREMENT that it is drawn from; None for what needs no run."""

    @abstractmethod
    def show(self, evidence: Evidence, folder: Path) -> Shown | None:
        """Draw it, a picture to the folder; None where it has not been measured."""

    @property
    def source(self) -> str:
        """RUN/MEASUREMENT, of a figure that has one."""
        assert self.of is not None
        return self.of

    def picture(self, folder: Path) -> Path:
        """Where its picture goes."""
        return folder / f"{self.name}.png"


class LossFigure(Figure):
    """The loss of each step."""

    def show(self, evidence: Evidence, folder: Path) -> Shown | None:
        """Draw the measured profile."""
        losses = evidence.profile(find(self.source)[0].name)
        if losses is None:
            return None
        draw_losses(losses, self.picture(folder))
        return Shown(picture=self.picture(folder))


@dataclass(frozen=True, kw_only=True)
class PlanFigure(Figure):
    """The schedule that is planned from a profile."""

    num_calls: int

    def show(self, evidence: Evidence, folder: Path) -> Shown | None:
        """Make the profile monotone, plan and draw."""
        losses = evidence.profile(find(self.source)[0].name)
        if losses is None:
            return None
        smooth = monotone(losses, method="smooth")
        draw_plan(smooth, plan(smooth, self.num_calls), self.picture(folder))
        return Shown(picture=self.picture(folder))


@dataclass(frozen=True, kw_only=True)
class MatrixFigure(Figure):
    """The transition matrices of a depth map."""

    num_classes: int
    base: int

    def show(self, evidence: Evidence, folder: Path) -> Shown:
        """Draw one for each stage."""
        depth = BaseDepthMap(self.num_classes, self.base)
        draw_matrices([depth.transition_matrix(s).numpy() for s in range(depth.num_stages)], self.picture(folder))
        return Shown(picture=self.picture(folder))


class TextChainFigure(Figure):
    """Texts as they come about."""

    def show(self, evidence: Evidence, folder: Path) -> Shown | None:
        """The states of each sample, one below the other."""
        found = evidence.text_chain(self.source)
        if found is None:
            return None
        heads = [f"call {call:>4}  " for call in found.calls] or [""] * len(found.chains[0])
        blocks = ["\n".join(map(str.__add__, heads, chain)) for chain in found.chains]
        return Shown(text="\n\n".join(blocks))


class ImageChainFigure(Figure):
    """Images as they come about."""

    def show(self, evidence: Evidence, folder: Path) -> Shown | None:
        """A row for each sample."""
        found = evidence.image_chain(self.source)
        if found is None:
            return None
        states = found.pixels.reshape(-1, *found.pixels.shape[2:])
        enlarged = np.repeat(np.repeat(states, ENLARGED, axis=1), ENLARGED, axis=2)
        write_png(self.picture(folder), grid(enlarged, columns=found.pixels.shape[1]))
        return Shown(picture=self.picture(folder))


HEIGHTS = "Loss components over the steps; heights are such that their mean is the bits of a variable"
FIGURES: tuple[Figure, ...] = (
    LossFigure(name="loss-text8-oa", caption=f"{HEIGHTS}: OA-ARDM of text8", of="text8-oa/bits"),
    LossFigure(name="loss-cifar10-oa", caption=f"{HEIGHTS}: OA-ARDM of CIFAR-10", of="cifar10-oa/bits"),
    LossFigure(
        name="loss-cifar10-upscale4",
        caption=f"{HEIGHTS}: ARDM-Upscale 4 of CIFAR-10, four stages",
        of="cifar10-upscale4/bits",
    ),
    LossFigure(
        name="loss-sc09-upscale4", caption=f"{HEIGHTS}: ARDM-Upscale 4 of SC09, eight stages", of="sc09-upscale4/bits"
    ),
    PlanFigure(
        name="plan-text8-oa",
        caption="The planned schedule of the OA-ARDM of text8 in 20 calls; steps of one height share a call",
        of="text8-oa/bits",
        num_calls=20,
    ),
    PlanFigure(
        name="plan-cifar10-upscale4",
        caption="The planned schedule of the ARDM-Upscale 4 of CIFAR-10 in 200 calls",
        of="cifar10-upscale4/bits",
        num_calls=200,
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
        caption="Two images as the ARDM-Upscale 4 of CIFAR-10 generates them",
        of="cifar10-upscale4/chain",
    ),
    ImageChainFigure(
        name="chain-cifar10-oa",
        caption="Two images as the OA-ARDM of CIFAR-10 generates them; grey is hidden",
        of="cifar10-oa/chain",
    ),
)
