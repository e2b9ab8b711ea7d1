"""Spectrograms of sounds, with axes in seconds and kHz, drawn with Pillow."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int16
from PIL import Image, ImageDraw, ImageFont

from ardm.media.images.pictures import Picture

COLOURS = ((0, 0, 4), (87, 16, 110), (188, 55, 84), (249, 142, 9), (252, 255, 164))
"""From silent to loud, in equal steps (after matplotlib's inferno)."""
LOUDNESS_RANGE = 80
"""Decibels from the loudest point of 16-bit sound down to black."""
WINDOW = 256
"""Samples per column of a spectrogram; columns are a quarter of that apart."""

WIDTH = 1400
"""Pixels of a picture: twice its size on pages, for sharp letters on fine screens."""
LEFT, RIGHT, TOP, BOTTOM = 120, 125, 52, 84
"""Margins for the labels around all panels."""
GAP = 44
"""Pixels between neighbouring panels."""
TEXT_SIZE, TICK, PAD = 26, 8, 6
FOREGROUND, BACKGROUND = (51, 51, 51), (255, 255, 255)

Number = float | int


def spectrogram(samples: Int16[np.ndarray, "T"]) -> Picture:
    """Loudness over time (to the right) and frequency (upwards)."""
    sound = torch.from_numpy(samples.astype(np.float32)) / 2**15
    sound = torch.nn.functional.pad(sound, (0, max(0, WINDOW - len(sound))))
    hann = torch.hann_window(WINDOW)
    frequencies = torch.stft(
        sound, WINDOW, WINDOW // 4, window=hann, center=True, pad_mode="constant", return_complex=True
    )
    decibels = 20 * (frequencies.abs() / hann.sum() + 1e-9).log10()
    return coloured((1 + decibels / LOUDNESS_RANGE).clamp(0, 1).flip(0).numpy())


def coloured(loudness: np.ndarray) -> Picture:
    """The colours of loudness from 0 to 1."""
    steps = np.linspace(0, 1, len(COLOURS))
    channels = [np.interp(loudness, steps, [colour[c] for colour in COLOURS]) for c in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A sound in a picture of several."""

    sound: Int16[np.ndarray, "T"]
    title: str = ""
    """Written above the panel."""
    group: str = ""
    """Written to the left of the first panel of a row."""


def draw_spectrograms(panels: Sequence[Panel], columns: int, rate: int) -> Picture:
    """Spectrograms of sounds of one length and rate in rows, with common axes and a scale of colours."""
    grid = Grid(len(panels), columns, has_titles=any(panel.title for panel in panels[columns:]))
    image = Image.new("RGB", grid.size, BACKGROUND)
    for i, panel in enumerate(panels):
        box = grid.box(i)
        image.paste(_resized(panel.sound, box.width, box.height), (box.left, box.top))
        pen = Pen(image, box)
        pen.title(panel.title)
        if i % grid.columns == 0:
            pen.left_axis(rate / 2000, f"{panel.group} (kHz)" if panel.group else "kHz")
        if i + grid.columns >= len(panels):
            pen.bottom_axis(len(panel.sound) / rate, "seconds")
    _draw_scale(image, grid)
    return np.asarray(image)


def _resized(sound: Int16[np.ndarray, "T"], width: int, height: int) -> Image.Image:
    """A spectrogram with its edges at the beginning and the end of the sound, and at 0 and half the rate."""
    hop = WINDOW // 4
    picture = spectrogram(np.pad(sound, (0, -len(sound) % hop)))
    edges = (0.5, 0.5, 0.5 + len(sound) / hop, len(picture) - 0.5)  # a pixel's middle is its time and its frequency
    return Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC, box=edges)


def _draw_scale(image: Image.Image, grid: "Grid") -> None:
    """Draw the scale of loudness to the right of all panels."""
    first, last = grid.box(0), grid.box(grid.count - 1)
    height = last.top + last.height - first.top
    bar = Box(left=WIDTH - RIGHT + 30, top=first.top, width=22, height=height)
    rising = np.linspace(1, 0, height)[:, None].repeat(bar.width, axis=1)
    image.paste(Image.fromarray(coloured(rising)), (bar.left, bar.top))
    Pen(image, bar).scale(LOUDNESS_RANGE)


@dataclass(frozen=True, kw_only=True)
class Box:
    """A rectangle of pixels."""

    left: int
    top: int
    width: int
    height: int


class Grid:
    """The positions of panels that fill a picture's width, with titles in rows below the first if `has_titles`."""

    def __init__(self, count: int, columns: int, *, has_titles: bool) -> None:
        self.count, self.columns, self.row_gap = count, columns, TOP if has_titles else GAP
        self.panel_width = (WIDTH - LEFT - RIGHT - (columns - 1) * GAP) // columns
        self.panel_height = min(max(self.panel_width // 2, 200), 420)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture."""
        last = self.box(self.count - 1)
        return WIDTH, last.top + last.height + BOTTOM

    def box(self, i: int) -> Box:
        """The place of a panel."""
        row, column = divmod(i, self.columns)
        return Box(
            left=LEFT + column * (self.panel_width + GAP),
            top=TOP + row * (self.panel_height + self.row_gap),
            width=self.panel_width,
            height=self.panel_height,
        )


class Pen:
    """Labels around a box."""

    def __init__(self, image: Image.Image, box: Box) -> None:
        self.image, self.box = image, box
        self.draw = ImageDraw.Draw(image)
        self.font = ImageFont.load_default(TEXT_SIZE)
        self.right, self.bottom = box.left + box.width, box.top + box.height

    def title(self, text: str) -> None:
        """Write a line above the box."""
        self._text((self.box.left + self.box.width / 2, self.box.top - PAD), text, "md")

    def left_axis(self, limit: Number, label: str) -> None:
        """Draw a scale from 0 upwards, and its label."""
        for value in ticks(limit, max_ticks=5):
            y = self.bottom - value / limit * self.box.height
            self._tick((self.box.left - TICK, y, self.box.left, y))
            self._text((self.box.left - TICK - PAD, y), f"{value:g}", "rm")
        length = math.ceil(self.draw.textlength(label, self.font))
        upright = Image.new("RGB", (length, 2 * TEXT_SIZE), BACKGROUND)
        ImageDraw.Draw(upright).text((length / 2, TEXT_SIZE), label, FOREGROUND, self.font, anchor="mm")
        turned = upright.rotate(90, expand=True).crop((TEXT_SIZE // 4, 0, 7 * TEXT_SIZE // 4, length))
        self.image.paste(turned, (0, self.box.top + (self.box.height - length) // 2))

    def bottom_axis(self, limit: Number, label: str) -> None:
        """Draw a scale from 0 to the right, and its label."""
        for value in ticks(limit, max_ticks=max(3, self.box.width // 120)):
            x = self.box.left + value / limit * self.box.width
            self._tick((x, self.bottom, x, self.bottom + TICK))
            self._text((x, self.bottom + TICK + PAD), f"{value:g}", "ma")
        self._text((self.box.left + self.box.width / 2, self.bottom + BOTTOM - PAD), label, "md")

    def scale(self, decibels: int) -> None:
        """Draw a scale of decibels downwards from 0, to the right of the box."""
        for value in ticks(decibels, max_ticks=5):
            y = self.box.top + value / decibels * self.box.height
            self._tick((self.right, y, self.right + TICK, y))
            self._text((self.right + TICK + PAD, y), f"-{value:g}" if value else "0", "lm")
        self._text((self.right, self.box.top - PAD - TEXT_SIZE // 3), "dB", "md")

    def _tick(self, line: tuple[Number, Number, Number, Number]) -> None:
        self.draw.line(line, FOREGROUND, width=2)

    def _text(self, place: tuple[Number, Number], text: str, anchor: str) -> None:
        self.draw.text(place, text, FOREGROUND, self.font, anchor=anchor)


def ticks(limit: Number, max_ticks: int) -> list[float]:
    """Round numbers from 0 up to a limit, evenly spaced: at least 2, at most `max_ticks` (3 or more)."""
    least = limit / (max_ticks - 1)
    power = 10.0 ** math.floor(math.log10(least))
    nearly = 1 - 1e-9  # tolerates rounding in the last bits
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * nearly)
    return [i * step for i in range(int(limit / step / nearly) + 1)]
