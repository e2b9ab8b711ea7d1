"""FLAC by soundfile."""

import io
from dataclasses import dataclass

from ardm.apps.rivals.rival import OneByOne
from ardm.data.sound_files import Sound


@dataclass(frozen=True, kw_only=True)
class SoundfileFlac(OneByOne):
    """FLAC by soundfile, whose highest level is the tool's -8."""

    name: str = "FLAC (soundfile, highest level)"
    source: str = "pip install 'ardm[audio]'"
    package: str | None = "soundfile"

    def encode_item(self, item: Sound) -> bytes:
        import soundfile

        file = io.BytesIO()
        soundfile.write(file, item.frames, item.rate, subtype="PCM_16", format="FLAC", compression_level=1.0)
        return file.getvalue()

    def decode_item(self, file: bytes) -> Sound:
        import soundfile

        frames, rate = soundfile.read(io.BytesIO(file), dtype="int16", always_2d=True)
        return Sound(frames=frames, rate=rate)
