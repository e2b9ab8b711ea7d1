"""Codecs that are commands, whose times include starting them: JPEG XL, FLIF, FLAC and WavPack."""

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from ardm.apps.rivals.packages import pixels_of, saved
from ardm.apps.rivals.rival import OneByOne
from ardm.data.images import Pixels
from ardm.data.sound_files import Sound, read_sound, wav_file


@dataclass(frozen=True, kw_only=True)
class Tool(OneByOne):
    """A pair of commands that convert files."""

    encoder: str
    """A command in which SOURCE and TARGET represent the files that it reads and writes."""
    decoder: str
    suffix: str
    """Suffix of its files."""
    plain_suffix: Literal[".ppm", ".png", ".wav"] = ".ppm"
    """Suffix of the files that it encodes; PPM files are fastest and have no alpha."""

    def is_available(self) -> bool:
        return all(shutil.which(shlex.split(command)[0]) for command in (self.encoder, self.decoder))

    def encode_item(self, item: Pixels | Sound) -> bytes:
        """The file that the encoder writes for a PPM, PGM, PNG or WAV file."""
        with _converted(self._plain(item), self.plain_suffix, self.encoder, self.suffix) as target:
            return target.read_bytes()

    def decode_item(self, file: bytes) -> Pixels | Sound:
        with _converted(file, self.suffix, self.decoder, self.plain_suffix) as target:
            return read_sound(target) if self.plain_suffix == ".wav" else pixels_of(target.read_bytes())

    def _plain(self, item: Pixels | Sound) -> bytes:
        if isinstance(item, Sound):
            return wav_file(item.frames, item.rate)
        return saved(item, format=self.plain_suffix[1:].upper())


JPEG_XL = Tool(
    name="JPEG XL (cjxl -d 0 -e 9 -E 3 -I 100)",
    source="apt-get install libjxl-tools",
    encoder="cjxl SOURCE TARGET -d 0 -e 9 -E 3 -I 100 --num_threads=0 --quiet",
    decoder="djxl SOURCE TARGET --num_threads=0 --quiet",
    suffix=".jxl",
)
FLIF = Tool(
    name="FLIF (-E100)",
    source="build it from github.com/FLIF-hub/FLIF",
    encoder="flif -e -E100 SOURCE TARGET",
    decoder="flif -d SOURCE TARGET",
    suffix=".flif",
)
FLAC = Tool(
    name="FLAC (flac -8, no padding)",
    source="apt-get install flac",
    encoder="flac --silent --force -8 --no-padding --no-seektable -o TARGET SOURCE",
    decoder="flac --silent --force --decode -o TARGET SOURCE",
    suffix=".flac",
    plain_suffix=".wav",
)
WAVPACK = Tool(
    name="WavPack (-hh -x6)",
    source="apt-get install wavpack",
    encoder="wavpack -q -y -hh -x6 SOURCE -o TARGET",
    decoder="wvunpack -q -y SOURCE -o TARGET",
    suffix=".wv",
    plain_suffix=".wav",
)


@contextmanager
def _converted(content: bytes, suffix: str, command: str, target_suffix: str) -> Iterator[Path]:
    """The file that a command makes from a file with this content."""
    with TemporaryDirectory() as folder:
        source, target = Path(folder, f"source{suffix}"), Path(folder, f"target{target_suffix}")
        source.write_bytes(content)
        paths = {"SOURCE": str(source), "TARGET": str(target)}
        words = [paths.get(word, word) for word in shlex.split(command)]
        subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        yield target
