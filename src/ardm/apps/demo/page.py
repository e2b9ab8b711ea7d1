"""The demo's report: a single HTML page with its pictures and sounds embedded."""

import platform
import time

import numpy as np
import torch
from jaxtyping import Float, Int, Int16

from ardm.apps.demo.filling import GAP_TEMPERATURE, Filled
from ardm.apps.demo.results import DemoResults, ModelResults
from ardm.apps.demo.tables import COLUMNS, blocks_of, notes_of
from ardm.apps.report.pages import render
from ardm.apps.serve.display import pixel_bits, readable
from ardm.codec.format.fields import SoundFields
from ardm.data.sound_files import wav_file
from ardm.library.plots import grouped_losses, stair_edges, stair_heights
from ardm.media.contents import frames_of, pixels_of
from ardm.media.images.medium import HIDDEN_GREY, visible
from ardm.media.images.pictures import Picture
from ardm.media.sounds.medium import audible
from ardm.media.sounds.spectrograms import COLOURS, coloured, spectrogram
from ardm.planner import Plan
from ardm.version import __version__

SHARE_IN_RANGE = 0.995
"""Fraction of a heat map's pixels within the range of colours; the others have the brightest colour."""
MAX_CHARACTERS = 1500
"""Characters of a text whose bits are shown."""
SHADES = 9
"""Shades of characters, from no bits to the most."""
WIDTH, HEIGHT = 1000, 300
"""Units of a plan's drawing, which the page stretches."""


def report_page(results: DemoResults) -> str:
    """The whole page."""
    functions = (heat_maps, shaded_texts, filled_pictures, filled_texts, picture, shown, sounds_of, plan_outlines)
    return render(
        "ardm.apps.demo",
        "demo.html.j2",
        results=results,
        blocks=blocks_of(results),
        notes=notes_of(results),
        columns=COLUMNS,
        colours=COLOURS,
        width=WIDTH,
        height=HEIGHT,
        temperature=GAP_TEMPERATURE,
        spectrogram=spectrogram,
        wav_file=wav_file,
        footer=footer(results),
        **{function.__name__: function for function in functions},
    )


def footer(results: DemoResults) -> str:
    """The versions, the hardware, the seed and the time."""
    threads = f"{torch.get_num_threads()} thread{'s' * (torch.get_num_threads() > 1)}"
    devices = ", ".join(sorted({str(part.model.runtime.device) for part in results.parts}))
    return (
        f"ardm {__version__}, torch {torch.__version__}, Python {platform.python_version()}, {devices}, "
        f"{threads}, {platform.machine()}; seed {results.seed}; {results.seconds:.0f} "
        f"seconds in all, {time.strftime('%Y-%m-%d %H:%M')}. Try the models yourself: ardm serve."
    )


def heat_maps(part: ModelResults) -> tuple[list[tuple[str, Picture, Picture, float]], float]:
    """The name, picture, bits as colours and bits per pixel of each image, and the bits of the brightest colour."""
    bits = [pixel_bits(places) for _, places in part.bits]
    top = max(float(np.quantile(np.concatenate([*map(np.ravel, bits)]), SHARE_IN_RANGE)), 0.1)
    maps = [
        (example.name, pixels_of(example.content), coloured(np.clip(each / top, 0, 1)), float(each.mean()))
        for (example, _), each in zip(part.bits, bits, strict=True)
    ]
    return maps, top


def shaded_texts(part: ModelResults) -> list[tuple[str, str, list[str], float]]:
    """The caption, the characters, their CSS classes and the most bits of each text."""
    texts = []
    for example, (bits,) in part.bits:
        text, name = readable(example.content), example.name
        if len(text) > MAX_CHARACTERS:
            name += f", the first {MAX_CHARACTERS:,} of {len(text):,} characters"
        texts.append((name, text[:MAX_CHARACTERS], shades(bits[:MAX_CHARACTERS]), float(bits.max())))
    return texts


def shades(bits: Float[np.ndarray, "N"]) -> list[str]:
    """The CSS class of each character by its bits; "" for the palest."""
    steps = np.rint(SHADES * bits / max(float(bits.max()), 1e-9)).astype(int)
    return [f"b{step}" if step else "" for step in steps]


def filled_pictures(filled: Filled) -> list[tuple[str, Picture]]:
    """The original, the image with a gap and the filled images, with their labels."""
    masked, shape = np.where(filled.gaps.known, filled.original, HIDDEN_GREY), filled.gaps.shape
    states = {"original": filled.original, "with a gap": masked} | _numbered(filled)
    return [(label, picture(state, shape)) for label, state in states.items()]


def filled_texts(part: ModelResults, filled: Filled) -> list[tuple[str, str, list[str]]]:
    """The original and the filled texts, each with its label and the CSS classes of its characters."""
    states, known = {"original": filled.original} | _numbered(filled), filled.gaps.known[: filled.gaps.length]
    classes = ["" if is_known else "mark" for is_known in known]
    return [(label, shown(part, state[: len(known)]), classes) for label, state in states.items()]


def _numbered(filled: Filled) -> dict[str, np.ndarray]:
    return {f"filled {number}": state for number, state in enumerate(filled.drawn.samples, start=1)}


def picture(state: Int[np.ndarray, "D"], shape: tuple[int, ...]) -> Picture:
    """A state of an image as a picture; hidden variables are grey."""
    return visible(state).reshape(shape)


def shown(part: ModelResults, state: Int[np.ndarray, "D"]) -> str:
    """A state of a text as a line of text."""
    alphabet = part.model.trained.alphabet
    assert alphabet is not None
    return alphabet.show(state)


def sounds_of(part: ModelResults) -> list[tuple[str, Int16[np.ndarray, "T C"], int]]:
    """The titles, the frames and the rates of the files' sounds and of the samples."""
    sounds = []
    for example in part.model.examples:
        assert isinstance(example.content.fields, SoundFields)
        sounds.append((example.name, frames_of(example.content), example.content.fields.sample_rate))
    rate, calls = part.model.trained.sample_rate, part.drawn.calls[-1]
    assert rate is not None
    drawn = audible(part.drawn.samples)
    return sounds + [(f"sample {i}, {calls} calls", sound[:, None], rate) for i, sound in enumerate(drawn, start=1)]


def plan_outlines(losses: Float[np.ndarray, "S D"], plan: Plan) -> tuple[str, str, float]:
    """The paper's Figure 3 as two SVG paths, and the bits at the upper edge; areas are bits.

    The first path has the costs where steps share calls, the second one, in front of it, the losses with a call each.
    """
    edges = stair_edges(*losses.shape)
    heights, shared = (stair_heights(one, edges) for one in (losses, grouped_losses(losses, plan)))
    top = max(float(heights.max()), float(shared.max()), 1e-9)
    return _outline(edges, shared / top), _outline(edges, heights / top), top


def _outline(edges: Int[np.ndarray, "N"], heights: Float[np.ndarray, "_"]) -> str:
    """The outline of stairs as a path, with neighbours of equal height merged."""
    path, last = [f"M0 {HEIGHT}"], ""
    for stop, height in zip(edges[1:] / edges[-1], heights, strict=True):
        y = f"V{HEIGHT * (1 - height):.4g}"
        if y == last:
            path.pop()
        else:
            path.append(y)
        path.append(f"H{WIDTH * stop:.6g}")
        last = y
    return "".join([*path, f"V{HEIGHT}Z"])
