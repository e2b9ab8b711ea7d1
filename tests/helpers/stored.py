"""Entries to store: one of every form, and hypothesis strategies for any."""

import io
import random
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import strategies as st
from jaxtyping import config

from ardm.codec.format.archive import ArchiveReader, ArchiveWriter
from ardm.codec.format.entries import Coded, Entry, Limits, Raw
from ardm.codec.format.fields import BytesFields, ImageFields, SoundFields, TextFields
from ardm.codec.format.options import Options, OrderChoice
from ardm.errors import DamagedError, TooLargeError, UnknownVersionError
from ardm.names import ORDER_NAMES

TYPED_ERRORS = (DamagedError, UnknownVersionError, TooLargeError)

MODEL = bytes.fromhex("00112233445566778899aabbccddeeff")
OPTIONS = Options(model=MODEL[:6])
OTHER_OPTIONS = Options(model=b"model2", order=OrderChoice(name="pseudorandom", seed=70_000), schedule=3)


def coded_image(payload: bytes, options: Options = OPTIONS) -> Entry:
    """A 32x32 RGB image in one chunk."""
    return Entry(fields=ImageFields(width=32, height=32, mode="RGB"), content=Coded(options=options, chunks=(payload,)))


ENTRIES = {
    "image": coded_image(b"payload"),
    "chosen options": coded_image(b"payload", OTHER_OPTIONS),
    "chunks": Entry(
        fields=TextFields(length=700),
        content=Coded(options=OPTIONS, chunks=(b"first", b"", b"third"), side=b"escapes"),
    ),
    "sound": Entry(
        fields=SoundFields(num_samples=16_000, num_channels=2, sample_rate=16_000),
        content=Coded(options=OPTIONS, chunks=(b"\0\xff" * 5,)),
    ),
    "stored": Entry(fields=BytesFields(length=3), content=Raw(content=b"abc")),
    "deflated": Entry(fields=TextFields(length=300), content=Raw(content="é".encode() * 300)),
}
"""One of every form."""


def archive_of(entries: dict[str, Entry], options: Options | None = OPTIONS, recoverable: bool = True) -> bytes:
    """An archive's bytes."""
    file = io.BytesIO()
    with ArchiveWriter.create(file, options) as writer:
        writer.writes_groups = recoverable
        for name, entry in entries.items():
            writer.add(name, entry)
    return file.getvalue()


def appended(archive: bytes, entries: dict[str, Entry]) -> bytes:
    """The archive with more entries."""
    file = io.BytesIO(archive)
    with ArchiveWriter.append(file) as writer:
        for name, entry in entries.items():
            writer.add(name, entry)
    return file.getvalue()


def readable(archive: bytes, limits: Limits | None = None) -> dict[str, Entry]:
    """The entries of an archive that are not damaged; any other failure is an exception."""
    reader = ArchiveReader(io.BytesIO(archive), limits)
    entries = {}
    for name in reader.listings:
        try:
            entries[name] = reader.read(name)
        except TYPED_ERRORS:
            continue
    return entries


@contextmanager
def unchecked_shapes() -> Iterator[None]:
    """The package without conftest's checks of annotations, which take twenty times as long as reading a file."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)


def any_options() -> st.SearchStrategy[Options]:
    """Options of any kind."""
    orders = st.one_of(
        st.none(),
        st.sampled_from(ORDER_NAMES).map(lambda name: OrderChoice(name=name)),
        st.integers(0, 2**32 - 1).map(lambda seed: OrderChoice(name="pseudorandom", seed=seed)),
    )
    schedules = st.none() | st.integers(0, 2**16 - 1)
    return st.builds(Options, model=st.binary(min_size=6, max_size=6), order=orders, schedule=schedules)


def any_entry() -> st.SearchStrategy[Entry]:
    """Entries of any kind."""
    chunks = st.lists(st.binary(max_size=200), min_size=1, max_size=5).map(tuple)
    coded = st.builds(_coded, options=any_options(), chunks=chunks, side=st.binary(max_size=20))
    fields = st.one_of(
        st.builds(TextFields, length=st.integers(0, 2**40)),
        st.builds(BytesFields, length=st.integers(0, 2**40)),
        st.builds(
            ImageFields,
            width=st.integers(1, 2**16),
            height=st.integers(1, 2**16),
            mode=st.sampled_from(("L", "RGB", "LA", "RGBA")),
        ),
        st.builds(
            SoundFields,
            num_samples=st.integers(0, 2**40),
            num_channels=st.integers(1, 2),
            sample_rate=st.integers(1, 2**32 - 1),
        ),
    )
    return st.builds(Entry, fields=fields, content=coded) | any_raw_entry()


def any_raw_entry() -> st.SearchStrategy[Entry]:
    """Entries of raw content of any kind."""
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
    return st.one_of(
        texts.map(lambda text: Entry(fields=TextFields(length=len(text)), content=Raw(content=text.encode()))),
        st.binary(max_size=300).map(lambda raw: Entry(fields=BytesFields(length=len(raw)), content=Raw(content=raw))),
        st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from(("L", "RGB", "LA", "RGBA"))).flatmap(_image),
        st.tuples(st.integers(0, 40), st.integers(1, 2)).flatmap(_sound),
    )


def _coded(**parts) -> Coded:
    """Coded content; the shape checks draw from `random` to look into tuples, which hypothesis must not see."""
    state = random.getstate()
    try:
        return Coded(**parts)
    finally:
        random.setstate(state)


def _image(shape: tuple[int, int, str]) -> st.SearchStrategy[Entry]:
    width, height, mode = shape
    size = width * height * len(mode)
    fields = ImageFields(width=width, height=height, mode=mode)
    return st.binary(min_size=size, max_size=size).map(lambda raw: Entry(fields=fields, content=Raw(content=raw)))


def _sound(shape: tuple[int, int]) -> st.SearchStrategy[Entry]:
    num_samples, num_channels = shape
    size = 2 * num_samples * num_channels
    fields = SoundFields(num_samples=num_samples, num_channels=num_channels, sample_rate=8000)
    return st.binary(min_size=size, max_size=size).map(lambda raw: Entry(fields=fields, content=Raw(content=raw)))
