"""Sections of the report about what models do with contents: where bits go, gaps, samples, sounds."""

from html import escape

import numpy as np
from jaxtyping import Float, UInt8

from ardm.apps.demo.coding import PlaceBits
from ardm.apps.demo.drawing import GAP_TEMPERATURE, Drawn, Filled, States
from ardm.apps.demo.show import Part, Show
from ardm.apps.report.pieces import (
    chain,
    figure,
    gallery,
    heat_map,
    heat_scale,
    image,
    marked,
    paragraph,
    player,
    sample_of,
    section,
    shaded,
    titled,
)
from ardm.apps.serve.looks import readable
from ardm.codec.format.fields import SoundFields
from ardm.data.sounds import ZERO_CLASS
from ardm.media.contents import frames_of, pixels_of
from ardm.media.images.medium import HIDDEN_GREY

SHARE_SHOWN = 0.995
"""Of the pixels of a heat map that have a colour of their own; the rest is as bright as the scale goes."""
TEXT_SHOWN = 1500
"""Characters of a text whose bits are shown."""


def bits_section(show: Show) -> str:
    """Which pixels and characters take the bits."""
    parts = [_image_bits(part) for part in show.of("images")] + [_text_bits(part) for part in show.of("text")]
    return section("Where the bits go", *parts)


def _image_bits(part: Part) -> str:
    maps = {name: pixel_bits(bits) for name, bits in part.bits.items()}
    if not maps:
        return ""
    most = max(float(np.quantile(np.concatenate([*map(np.ravel, maps.values())]), SHARE_SHOWN)), 0.1)
    text = "Bits for each pixel: bright ones surprised the model, given all pixels that were coded before."
    pictures = {one.path.name: pixels_of(one.content) for one in part.exhibit.examples}
    pairs = [
        figure(
            f'<div class="pair">{image(pictures[name], name)}{heat_map(bits, most)}</div>',
            f"{name}: {bits.mean():.2f} bits a pixel",
        )
        for name, bits in maps.items()
    ]
    return paragraph(text) + gallery(pairs) + heat_scale(most, "bits a pixel")


def pixel_bits(bits: PlaceBits) -> Float[np.ndarray, "H W"]:
    """The bits of each pixel: those of all its channels, wherever they lie."""
    return np.asarray(np.sum([canvas.sum(axis=2) for canvas in bits], axis=0))


def _text_bits(part: Part) -> str:
    text = (
        "Bits for each character: the stronger its shade, the more. Characters that the model does not know are kept "
        "beside what it codes and have no shade."
    )
    texts = {one.path.name: readable(one.content) for one in part.exhibit.examples}
    shown = [_shaded(name, texts[name], bits) for name, (bits,) in part.bits.items()]
    return paragraph(text) + "".join(shown) if shown else ""


def _shaded(name: str, text: str, bits: Float[np.ndarray, "N"]) -> str:
    cut = f", the first {TEXT_SHOWN:,} of {len(text):,} characters" if len(text) > TEXT_SHOWN else ""
    caption = f"{name}{cut}: up to {bits.max():.1f} bits a character"
    return titled(shaded(text[:TEXT_SHOWN], bits[:TEXT_SHOWN]), caption)


def gaps_section(show: Show) -> str:
    """Images and texts with gaps, and what they were filled with."""
    fillings = [_filled_image(one) for part in show.of("images") for one in part.filled]
    fillings += [_filled_text(part, one) for part in show.of("text") for one in part.filled]
    if not fillings:
        return ""
    text = "The same gaps filled several times, each from what is around them."
    if any(part.filled and part.exhibit.served.trained.model.num_stages > 1 for part in show.parts):
        text += " Models that refine values in several stages fill approximately: a stage sees what is known coarsely."
    return section("Gaps filled", paragraph(text), *fillings)


def _filled_image(filled: Filled) -> str:
    shape, states = filled.gaps.shape, filled.drawn.samples
    masked = np.where(filled.gaps.known, filled.original, HIDDEN_GREY)
    pictures = [("original", filled.original), ("with a gap", masked)]
    pictures += [(f"filling {number}", state) for number, state in enumerate(states, start=1)]
    figures = [figure(image(pixels(one, shape), f"{filled.name}, {name}"), name) for name, one in pictures]
    return paragraph(_how(filled.name, filled.drawn), "note") + gallery(figures, "small")


def _filled_text(part: Part, filled: Filled) -> str:
    alphabet, length = part.exhibit.served.trained.alphabet, filled.gaps.length
    assert alphabet is not None
    is_gap = ~filled.gaps.known[:length]
    rows = [("original", filled.original)]
    rows += [(f"filling {number}", state) for number, state in enumerate(filled.drawn.samples, start=1)]
    figures = [titled(marked(alphabet.show(state[:length]), is_gap), name) for name, state in rows]
    return paragraph(_how(filled.name, filled.drawn), "note") + "".join(figures)


def _how(name: str, drawn: Drawn) -> str:
    calls = f"{drawn.calls[-1]} calls of the network"
    return f"{name}: {len(drawn.samples)} fillings in {calls}, temperature {GAP_TEMPERATURE}, {drawn.seconds:.1f} s."


def pixels(state: np.ndarray, shape: tuple[int, ...]) -> UInt8[np.ndarray, "H W C"]:
    """A state of an image as a picture; what is hidden is grey."""
    return np.where(state < 256, state, HIDDEN_GREY).astype(np.uint8).reshape(shape)


def samples_section(show: Show) -> str:
    """Images and texts from nothing, and the states on the way."""
    parts = [_image_chain(part.drawn) for part in show.of("images")] + [_text_chain(part) for part in show.of("text")]
    text = "New items, drawn from nothing but chance. A state is shown after some of the calls; the last is the sample."
    return section("Samples as they come about", paragraph(text), *parts) if parts else ""


def _image_chain(drawn: Drawn) -> str:
    figures = [
        titled(image(pixels(states[row], drawn.shape), f"sample {row + 1} after call {call}"), _after(row, call))
        for row in range(len(drawn.samples))
        for call, states in zip(drawn.calls, drawn.states, strict=True)
    ]
    return paragraph(_drawn_in(drawn), "note") + chain(figures, len(drawn.calls))


def _after(row: int, call: int) -> str:
    return f"call {call}" if row == 0 else ""


def _drawn_in(drawn: Drawn) -> str:
    return f"{len(drawn.samples)} samples in {drawn.calls[-1]} calls of the network, {drawn.seconds:.1f} s."


def _text_chain(part: Part) -> str:
    drawn = part.drawn
    states = [titled(_shown(part, state[:1]), f"call {c}") for c, state in zip(drawn.calls, drawn.states, strict=True)]
    others = titled(_shown(part, drawn.samples[1:]), "other samples") if len(drawn.samples) > 1 else ""
    return paragraph(_drawn_in(drawn), "note") + "".join(states) + others


def _shown(part: Part, states: States) -> str:
    alphabet = part.exhibit.served.trained.alphabet
    assert alphabet is not None
    return "".join(sample_of(escape(alphabet.show(state))) for state in states)


def sounds_section(show: Show) -> str:
    """Sounds to look at and to listen to: those of files, and samples."""
    players = [one for part in show.of("sound") for one in _players(part)]
    text = "Brighter is louder; time goes to the right, frequency upwards."
    return section("Sounds", paragraph(text), gallery(players)) if players else ""


def _players(part: Part) -> list[str]:
    rate = part.exhibit.served.trained.sample_rate
    assert rate is not None
    own = []
    for one in part.coded:
        assert isinstance(one.example.content.fields, SoundFields)
        own.append(player(frames_of(one.example.content)[:, 0], one.example.content.fields.sample_rate, one.name))
    sounds = (part.drawn.samples - ZERO_CLASS).astype(np.int16)
    how = f"{part.drawn.calls[-1]} calls"
    return own + [player(sound, rate, f"sample {i}, {how}") for i, sound in enumerate(sounds, start=1)]
