"""16-bit sounds, mono or stereo, of any length and rate.

Class k stands for the sample k - 32768. The canvases of a stereo sound depend on its side byte:

| side byte | |
|---|---|
| none | left, right |
| 1 | left, right - left modulo 2^16 |
| 2 | left; right is equal |
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int16

from ardm.codec.format.fields import SoundFields
from ardm.codec.windows import Canvas
from ardm.data.sound_files import SOUND_SUFFIXES, read_sound
from ardm.data.sounds import ZERO_CLASS, classes_of
from ardm.errors import DamagedError, DataError
from ardm.media.contents import Content, frames_of, sound_content
from ardm.media.layout import Layout, Placement
from ardm.names import Shape

SEPARATE, DIFFERENCE, EQUAL = b"", b"\1", b"\2"

Channel = Int16[np.ndarray, "N"]


class SoundLayout(Layout[SoundFields]):
    """Sounds for a model of mono sound."""

    title, fields, suffixes = "16-bit sound", SoundFields, SOUND_SUFFIXES

    def read(self, path: Path) -> Content:
        """The samples of a WAV or FLAC file."""
        sound = read_sound(path)
        num_channels = sound.frames.shape[1]
        if num_channels > 2:
            raise DataError(f"{path} has {num_channels} channels; only mono and stereo are supported; split it first")
        return sound_content(sound.frames, sound.rate)

    def place(self, content: Content) -> Placement:
        """A canvas for each channel, or one canvas for two equal channels."""
        left, *others = frames_of(content).T
        if not others:
            return Placement(content=content, canvases=[_canvas(left)])
        side, right = _cheapest(left, others[0])
        return Placement(content=content, canvases=[_canvas(channel) for channel in (left, *right)], side=side)

    def sizes(self, fields: SoundFields, side: bytes) -> list[Shape]:
        """The sizes of one canvas or two."""
        if side not in (SEPARATE, DIFFERENCE, EQUAL) or (side and fields.num_channels == 1):
            raise DamagedError(f"its channels have an unknown form: {side[:8].hex()}")
        return [(fields.num_samples,)] * (1 if side == EQUAL else fields.num_channels)

    def raw(self, fields: SoundFields, side: bytes, canvases: Sequence[Canvas]) -> bytes:
        """The samples of all channels in turn."""
        channels = [(canvas.values ^ np.uint16(ZERO_CLASS)).view(np.int16) for canvas in canvases]
        if side == DIFFERENCE:
            channels[1] = channels[1] + channels[0]
        if side == EQUAL:
            channels *= 2
        return np.stack(channels, axis=1).astype("<i2").tobytes()


def _cheapest(left: Channel, right: Channel) -> tuple[bytes, list[Channel]]:
    """The form of a stereo sound and its channels besides the left one; rough channels cost more."""
    difference = right - left  # wraps around
    if not difference.any():
        return EQUAL, []
    if _roughness(difference) < _roughness(right):
        return DIFFERENCE, [difference]
    return SEPARATE, [right]


def _roughness(channel: Channel) -> int:
    return int(np.abs(np.diff(channel.astype(np.int64), prepend=0)).sum())


def _canvas(channel: Channel) -> Canvas:
    return Canvas(values=classes_of(channel))
