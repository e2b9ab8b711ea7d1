"""FLAC by soundfile."""

import io
from dataclasses import dataclass

from ardm.bench.rivals.rival import OneByOne
from ardm.data.audio import Clip


@dataclass(frozen=True, kw_only=True)
class SoundfileFlac(OneByOne):
    """FLAC by soundfile, whose highest level is the tool's -8."""

    name: str = "FLAC (soundfile, highest level)"
    source: str = "pip install 'ardm[audio]'"
    package: str | None = "soundfile"

    def encode_item(self, item: Clip) -> bytes:
        """A whole FLAC file."""
        import soundfile

        file = io.BytesIO()
        soundfile.write(file, item.samples, item.rate, subtype="PCM_16", format="FLAC", compression_level=1.0)
        return file.getvalue()

    def decode_item(self, file: bytes) -> Clip:
        """Samples and rate."""
        import soundfile

        samples, rate = soundfile.read(io.BytesIO(file), dtype="int16")
        return Clip(samples=samples, rate=rate)
