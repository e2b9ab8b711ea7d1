"""Pieces of pages that need nothing beside them: HTML of texts, pictures and sounds, each with its data in it."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

import numpy as np
from jaxtyping import Bool, Float, Int16

from ardm.data.sound_files import wav_file
from ardm.media.images.pictures import Picture, quick_png
from ardm.media.sounds.spectrograms import COLOURS, coloured, spectrogram

SHADES = 9
"""Steps from no bits to most, in which texts are shaded."""


def document(title: str, *parts: str) -> str:
    """A whole page."""
    style = files("ardm.apps.report").joinpath("templates", "style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{style}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def image(picture: Picture, alt: str, name: str = "pixels") -> str:
    """A picture; the class `pixels` keeps them sharp."""
    return png_image(quick_png(picture), alt, name)


def png_image(file: bytes, alt: str, name: str = "") -> str:
    """The picture of a PNG file."""
    return f'<img{_class(name)} src="{data_url("image/png", file)}" alt="{escape(alt)}">'


def data_url(kind: str, file: bytes) -> str:
    """A file inside the page."""
    return f"data:{kind};base64,{b64encode(file).decode()}"


def player(samples: Int16[np.ndarray, "T"], rate: int, title: str) -> str:
    """A sound to look at and to listen to."""
    file = wav_file(samples[:, None], rate)
    picture = image(spectrogram(samples), f"Spectrogram of {title}", "spectrogram")
    audio = f'<audio controls preload="metadata" src="{data_url("audio/wav", file)}"></audio>'
    range_ = f"{len(samples) / rate:.3g} s, 0 to {rate / 2000:g} kHz"
    return figure(picture + audio, f"{title}: {range_}")


def figure(content: str, caption: str) -> str:
    """Something with a line of text below it, which is escaped."""
    return f"<figure>{content}{_caption(caption)}</figure>"


def titled(content: str, title: str) -> str:
    """Something with a line of text above it, which is escaped."""
    return f"<figure>{_caption(title)}{content}</figure>"


def _caption(text: str) -> str:
    return f"<figcaption>{escape(text)}</figcaption>" if text else ""


def gallery(figures: Iterable[str], name: str = "wide") -> str:
    """Figures side by side, as many as fit: `half` the page wide, `wide` or `small` ones."""
    return f'<div class="gallery {name}">{"".join(figures)}</div>'


def chain(figures: Iterable[str], columns: int) -> str:
    """Figures in rows of so many, on any screen."""
    style = f"grid-template-columns: repeat({columns}, minmax(0, 1fr))"
    return f'<div class="chain" style="{style}">{"".join(figures)}</div>'


def paragraph(text: str, name: str = "") -> str:
    """A paragraph of plain text."""
    return f"<p{_class(name)}>{escape(text)}</p>"


def section(title: str, *parts: str) -> str:
    """A part of the page, or nothing without content."""
    if not any(parts):
        return ""
    place = title.lower().replace(" ", "-")
    return f'<section id="{place}"><h2>{escape(title)}</h2>{"".join(parts)}</section>'


def marked(text: str, is_marked: Sequence[bool] | Bool[np.ndarray, "N"]) -> str:
    """A text in which some characters are marked."""
    return sample_of(_runs(text, ["mark" if one else "" for one in is_marked]))


def shaded(text: str, bits: Float[np.ndarray, "N"]) -> str:
    """A text of which every character is shaded by its bits."""
    steps = np.rint(SHADES * bits / max(float(bits.max()), 1e-9)).astype(int)
    return sample_of(_runs(text, [f"b{step}" if step else "" for step in steps]))


def sample_of(content: str) -> str:
    """A block of text of one width; its content is HTML."""
    return f'<div class="sample">{content}</div>'


def _runs(text: str, names: Sequence[str]) -> str:
    """The text with a span for each run of characters of one class."""
    parts: list[str] = []
    start = 0
    for stop in range(1, len(text) + 1):
        if stop == len(text) or names[stop] != names[start]:
            run = escape(text[start:stop])
            parts.append(f"<span{_class(names[start])}>{run}</span>" if names[start] else run)
            start = stop
    return "".join(parts)


def heat_map(bits: Float[np.ndarray, "H W"], most: float) -> str:
    """Bits for each pixel as colours, from none to most."""
    return image(coloured(np.clip(bits / most, 0, 1)), "Bits for each pixel, brighter where there are more")


def heat_scale(most: float, unit: str) -> str:
    """What the colours of a heat map mean."""
    colours = ", ".join(f"rgb{colour}" for colour in COLOURS)
    bar = f'<span class="scale" style="background: linear-gradient(to right, {colours})"></span>'
    return f'<p class="legend">0 {bar} {most:.1f} {escape(unit)}</p>'


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
