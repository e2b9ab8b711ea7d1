"""The figures, and how each is drawn from the results that runs have left."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ardm.apps.report.figures import draw_losses, draw_matrices
from ardm.apps.report.paper.evidence import Chains, Evidence, Profile, TextChain
from ardm.depth import BaseDepthMap
from ardm.library.plots import draw_plan
from ardm.media.images.pictures import grid, write_png
from ardm.planner import plan
from ardm.profile import monotone

ENLARGED = 4
"""Pixels of the picture for one pixel of a chain's images, in each direction."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of the paper, from our own runs."""

    name: str
    caption: str
    key: str = ""
    """RUN/MEASUREMENT that it is drawn from; empty if it needs no run."""
    read: Callable[[Evidence, str], Any]
    """Reads what is drawn from RUN/MEASUREMENT; None if that has not been measured."""
    draw: Callable[[Any, Path], str | None]
    """Draws it to a PNG file, or returns lines of text."""


def draw_planned(profile: Profile, path: Path, num_calls: int) -> None:
    """Draw the schedule planned from a measured profile."""
    losses = monotone(profile, method="smooth")
    draw_plan(losses, plan(losses, num_calls), path)


def transition_matrices(num_classes: int, base: int) -> list[Float[np.ndarray, "V V"]]:
    """The transition matrix of each stage of a depth map."""
    depth = BaseDepthMap(num_classes, base)
    return [depth.transition_matrix(stage).numpy() for stage in range(depth.num_stages)]


def chain_text(content: TextChain, _: Path) -> str:
    """The states of each sample, one below the other."""
    heads = [f"call {call:>4}  " for call in content.calls] or [""] * len(content.chains[0])
    return "\n\n".join("\n".join(map(str.__add__, heads, chain)) for chain in content.chains)


def draw_chains(chains: Chains, path: Path) -> None:
    """Draw enlarged states of images, a row for each sample."""
    states = chains.reshape(-1, *chains.shape[2:])
    enlarged = np.repeat(np.repeat(states, ENLARGED, axis=1), ENLARGED, axis=2)
    write_png(path, grid(enlarged, columns=chains.shape[1]))


def _losses(run: str, what: str) -> Figure:
    return Figure(
        name=f"loss-{run}",
        caption=f"Loss components over the steps; their mean height is the number of bits per variable: {what}",
        key=f"{run}/bits",
        read=Evidence.profile,
        draw=draw_losses,
    )


def _planned(run: str, num_calls: int, caption: str) -> Figure:
    draw = partial(draw_planned, num_calls=num_calls)
    return Figure(name=f"plan-{run}", caption=caption, key=f"{run}/bits", read=Evidence.profile, draw=draw)


def _matrices(num_classes: int, base: int, caption: str) -> Figure:
    def read(*_: object) -> list[Float[np.ndarray, "V V"]]:
        return transition_matrices(num_classes, base)

    return Figure(name=f"matrices-{base}", caption=caption, read=read, draw=draw_matrices)


def _image_chain(run: str, caption: str) -> Figure:
    read, draw = Evidence.image_chains, draw_chains
    return Figure(name=f"chain-{run}", caption=caption, key=f"{run}/chain", read=read, draw=draw)


FIGURES = (
    _losses("text8-oa", "OA-ARDM of text8"),
    _losses("cifar10-oa", "OA-ARDM of CIFAR-10"),
    _losses("cifar10-upscale4", "ARDM-Upscale 4 of CIFAR-10, four stages"),
    _planned(
        "text8-oa", 20, "The planned schedule of the OA-ARDM of text8 in 20 calls; steps of one height share a call"
    ),
    _planned("cifar10-upscale4", 40, "The planned schedule of the ARDM-Upscale 4 of CIFAR-10 in 40 calls"),
    _matrices(
        8, 2, "Bit upscaling: the transition matrices of eight classes and three stages; coloured entries are ones"
    ),
    _matrices(16, 4, "Upscaling by 4: the transition matrices of sixteen classes and two stages"),
    Figure(
        name="chain-text8-oa",
        caption="Two texts as the OA-ARDM of text8 generates them; _ is hidden",
        key="text8-oa/chain",
        read=Evidence.text_chain,
        draw=chain_text,
    ),
    _image_chain(
        "cifar10-upscale4",
        "Two images as the ARDM-Upscale 4 of CIFAR-10 generates them, from the first of 400 calls on",
    ),
    _image_chain(
        "cifar10-oa",
        "Two images as the OA-ARDM of CIFAR-10 generates them, from the first of 200 calls on; grey is hidden",
    ),
)
