"""An independent decoder, written from docs/format.md and docs/network.md alone: the oracle of the test-suite.

It shares no code with the package and needs numpy only. The sections, words and sequences are those of the documents;
speed and memory are no aim. Left out: writing, the recovery of archives, a reader's limits, and the bounds that a
reader imposes on model files.

Notation: B items of D variables, K classes, S stages, O outputs of a variable, G variables of a pixel, rows of F.
"""

from __future__ import annotations

import binascii
import gzip
import hashlib
import itertools
import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
Content = str | bytes | Array


class DamagedError(ValueError):
    """The bytes are not allowed by the documents, or name a version or a model that is not at hand."""


def require(condition: object, message: str) -> None:
    """Raises `DamagedError` unless the condition holds."""
    if not condition:
        raise DamagedError(message)


# ---- format.md: Conventions --------------------------------------------------------------------------------------


class Reader:
    """Takes bytes and numbers from the front of `data`."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, size: int) -> bytes:
        require(size <= len(self.data) - self.place, "cut short")
        self.place += size
        return self.data[self.place - size : self.place]

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.place)

    def varint(self, low: int = 0, high: int = 2**64 - 1) -> int:
        """The next varint, which must lie in low..high."""
        value, shift, byte = 0, 0, 0x80
        while byte & 0x80:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
        require(byte or shift == 7, "a varint longer than it has to be")
        require(low <= value <= high, f"the varint {value} is not in {low}..{high}")
        return value


def inflate(data: bytes, limit: int) -> bytes:
    """The content, of at most `limit` bytes, of a raw deflate stream that ends where `data` ends."""
    stream = zlib.decompressobj(-15)
    try:
        content = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise DamagedError(f"deflate: {error}") from error
    require(stream.eof and not stream.unused_data and len(content) <= limit, "deflated content of a wrong size")
    return content


def decode_utf8(data: bytes, length: int | None = None) -> str:
    """The text, of the given number of characters, that valid UTF-8 spells."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedError("invalid UTF-8") from error
    require(length in (None, len(text)), "a text of a wrong length")
    return text


def check_crc(covered: bytes, stored: bytes) -> None:
    """Raises unless `stored` is the CRC of `covered`."""
    require(struct.pack("<I", zlib.crc32(covered)) == stored, "wrong CRC")


# ---- format.md: Single file, Short file, Archive -----------------------------------------------------------------

TEXT, BYTES, GREY, RGB, GREY_ALPHA, RGBA, MONO, STEREO = range(8)
IMAGES, SOUNDS = (GREY, RGB, GREY_ALPHA, RGBA), (MONO, STEREO)
UNIT_BYTES = (4, 1, 1, 3, 2, 4, 2, 4)
"""Raw bytes of a character (at most), byte, pixel, or sample of all channels."""


class Options(NamedTuple):
    """The beginning of a model's identity, the number of an order, and that of a schedule; 0 is the model's own."""

    model: bytes
    order: int = 0
    seed: int = 0
    schedule: int = 0
    encoded: bytes = b""


class Entry(NamedTuple):
    """One user's file. Without options its only chunk is the raw content, inflated."""

    kind: int
    fields: tuple[int, ...]
    options: Options | None
    side: bytes
    chunks: tuple[bytes, ...]


def read_options(reader: Reader) -> Options:
    """Full options."""
    begin, model, order = reader.place, reader.take(6), reader.varint(high=6)
    seed, schedule = reader.varint(high=2**32 - 1) if order == 5 else 0, reader.varint(high=2**16)
    return Options(model, order, seed, schedule, reader.data[begin : reader.place])


class Header(NamedTuple):
    """What an entry restores to, and how; options are those in force, none with methods 2 and 3."""

    flags: int
    options: Options | None
    fields: tuple[int, ...]
    encoded_fields: bytes


def read_header(reader: Reader, default: Callable[[], Options | None]) -> Header:
    """A header; `default` gives the options of one that states none."""
    flags, options = reader.take(1)[0], None
    coded = flags >> 3 & 3 < 2
    require(flags < 128 and (coded or not flags & 0x60), "wrong flags")
    if coded:
        options = read_options(reader) if flags & 0x40 else default()
        require(options is not None, "no shared options where they are needed")
    begin, fields = reader.place, read_fields(reader, flags & 7)
    return Header(flags, options, fields, reader.data[begin : reader.place])


def read_fields(reader: Reader, kind: int) -> tuple[int, ...]:
    """Length; width and height of images; samples of a channel and samples per second of sounds."""
    if kind in IMAGES:
        return reader.varint(1, 2**31 - 1), reader.varint(1, 2**31 - 1)
    length = reader.varint(high=2**63 - 1)
    return (length, reader.varint(1, 2**32 - 1)) if kind in SOUNDS else (length,)


def read_body(header: Header, body: bytes) -> Entry:
    """The entry with this header and body."""
    flags, options, fields, _ = header
    kind, method, reader = flags & 7, flags >> 3 & 3, Reader(body)
    if method >= 2:
        size = math.prod(fields[: 2 if kind in IMAGES else 1]) * UNIT_BYTES[kind]
        raw = inflate(body, size) if method == 3 else body
        require(len(raw) == size or kind == TEXT, "raw content of a wrong size")
        return Entry(kind, fields, None, b"", (raw,))
    side = reader.take(reader.varint(low=1)) if flags & 0x20 else b""
    sizes = [reader.varint() for _ in range(reader.varint(low=2) - 1)] if method == 1 else []
    chunks = [reader.take(size) for size in sizes]
    return Entry(kind, fields, options, side, (*chunks, reader.rest()))


def read_single(data: bytes) -> Entry:
    """The entry of a single file."""
    require(data[:3] == b"\xad\x52\x01" and len(data) > 7, "no single file of version 1")
    check_crc(data[:-4], data[-4:])
    reader = Reader(data[3:-4])
    header = read_header(reader, lambda: Options(reader.take(6)))
    own = header.flags & 0x40 and header.options.order == header.options.schedule == 0
    require(not own, "options stated that are the model's own")
    return read_body(header, reader.rest())


def read_short(data: bytes, models: Sequence[Model]) -> Entry:
    """The entry of a short file; the model tells its fields."""
    require(is_short(data), "no short file")
    require(struct.pack("<H", binascii.crc_hqx(data[:-2], 0xFFFF)) == data[-2:], "wrong CRC")
    digits, payload = (data[1:3].hex(), data[3:-2]) if data[0] == 0xAC else (data[:2].hex()[1:], data[2:-2])
    require(len(payload) > 0, "no payload")
    model = find_model(models, digits)
    return Entry(model.kind, model.fields, Options(model.identity[:6]), b"", (payload,))


def is_short(data: bytes) -> bool:
    """Whether a file is a short one, of version 1 or 2."""
    return data[:1] == b"\xac" or (len(data) > 0 and data[0] >> 4 == 0xB)


def read_archive(data: bytes) -> dict[str, Entry]:
    """The entries of an archive, whose trailer and index must be intact, by their names."""
    require(data[:5] == b"\xadARC\x01" and len(data) > 21, "no archive of version 1")
    trailer = len(data) - 16
    marker, size = struct.unpack("<4sQ", data[trailer:-4])
    start = trailer - size
    require(marker == b"\xadEND" and start >= 0, "wrong trailer")
    check_crc(struct.pack("<Q", trailer) + data[trailer:-4], data[-4:])
    check_crc(struct.pack("<Q", start) + data[start : trailer - 4], data[trailer - 4 : trailer])
    reader = Reader(data[start : trailer - 4])
    require(reader.take(4) == b"\xadIDX" and reader.varint() == len(reader.data) - reader.place, "wrong index")
    shared = read_options(reader) if reader.varint(high=1) else None
    return read_directory(reader, shared, data[:start])


def read_directory(reader: Reader, shared: Options | None, data: bytes) -> dict[str, Entry]:
    """The entries that the directory of an index lists, whose bodies are in `data`."""
    sizes = [(reader.varint(), reader.take(4)) for _ in range(reader.varint())]
    plain = reader
    if reader.varint(high=1) == 1:
        size = reader.varint(high=1088 * len(sizes))
        plain = Reader(inflate(reader.rest(), size))
        require(len(plain.data) == size, "descriptions of a wrong size")
    entries, end = {}, 0
    for size, check in sizes:
        start = end + plain.varint()
        end, begin = start + size, plain.place
        name = decode_utf8(plain.take(plain.varint(1, 1024)))
        encoded_name = plain.data[begin : plain.place]
        header = read_header(plain, lambda: shared)
        require(end <= len(data) and is_path(name) and name not in entries, f"a wrong name or place: {name!r}")
        options = header.options.encoded if header.options else b""
        covered = struct.pack("<Q", start) + encoded_name + bytes([header.flags & ~0x40]) + options
        check_crc(covered + header.encoded_fields + data[start:end], check)
        entries[name] = read_body(header, data[start:end])
    require(not plain.rest(), "bytes after the descriptions")
    return entries


def is_path(name: str) -> bool:
    """Whether an entry may have this name."""
    drive = name[1:2] == ":" and name[0].isascii() and name[0].isalpha()
    control = any(c < " " or "\x7f" <= c <= "\x9f" or c == "\\" for c in name)
    return not (drive or control or {"", ".", ".."} & set(name.split("/")))


# ---- format.md: Content ------------------------------------------------------------------------------------------


class AxisWindow(NamedTuple):
    """A window along one axis: its first place, which of its own places it codes, and whether it is an odd one."""

    start: int
    codes: slice
    odd: bool


@dataclass
class Item:
    """A window's place on the canvas and its D variables: coded, given, or (neither) absent."""

    place: tuple[slice, ...]
    coded: Array
    given: Array
    values: Array
    """Of given variables the classes; of others the value at level 0, which decoding turns into the class."""


def windows_of_axis(length: int, size: int) -> list[AxisWindow]:
    """The windows of `size` places that cover an axis."""
    shared = size // 8
    last = max(0, -((size - length) // (size - shared)))
    windows = []
    for i in range(last + 1):
        odd = i % 2 == 1
        codes = slice(shared if odd else 0, size - shared if odd and i < last else size)
        windows.append(AxisWindow(i * (size - shared), codes, odd))
    return windows


def bundles(axes: Sequence[Sequence[AxisWindow]], size: int) -> Iterator[list[tuple[AxisWindow, ...]]]:
    """The windows of a canvas as bundles of at most `size`, wave by wave, the last axis running fastest."""
    for wave in range(len(axes) + 1):
        windows = [window for window in itertools.product(*axes) if sum(part.odd for part in window) == wave]
        yield from (windows[i : i + size] for i in range(0, len(windows), size))


def decode_canvas(coding: Coding, chunks: Iterator[bytes], size: Sequence[int], hidden: Array | bool = False) -> Array:
    """The classes of a canvas of this size, some of which may be hidden; its chunks are taken from `chunks`."""
    shape, first_value = coding.model.shape, coding.model.depth.first_value
    axes = [windows_of_axis(*pair) for pair in zip(size, shape, strict=True)]
    # Arrays that reach to the end of the last windows; nothing is visible beyond the canvas.
    canvas = np.zeros([axis[-1].start + n for axis, n in zip(axes, shape, strict=True)], np.int64)
    visible, inside = np.zeros(canvas.shape, bool), tuple(map(slice, size))
    visible[inside] = ~np.broadcast_to(hidden, size)
    for bundle in bundles(axes, max(1, 2**14 // math.prod(shape))):
        items = []
        for window in bundle:
            place = tuple(slice(part.start, part.start + n) for part, n in zip(window, shape, strict=True))
            codes = np.zeros(shape, bool)
            codes[tuple(part.codes for part in window)] = True
            coded, given = (codes & visible[place]).ravel(), (~codes & visible[place]).ravel()
            items.append(Item(place, coded, given, np.where(given, canvas[place].ravel(), first_value)))
        decode_payload(coding, next(chunks, b""), items)
        for item in items:
            canvas[item.place][item.coded.reshape(shape)] = item.values[item.coded]
    return canvas[inside]


def restore_entry(entry: Entry, models: Sequence[Model]) -> Content:
    """The content: text, bytes, pixels (height, width[, channels]) or samples (length[, 2])."""
    if entry.options is None:
        return restore_raw(entry)
    model, chunks = find_model(models, entry.options.model.hex()), iter(entry.chunks)
    restore, kinds = restore_characters, (entry.kind,)
    if entry.kind in IMAGES:
        restore, kinds = restore_image, IMAGES
    elif entry.kind in SOUNDS:
        restore, kinds = restore_sound, SOUNDS
    require(model.kind in kinds, "a model of another kind of content")
    require(entry.fields[0] > 0, "content of no variables is never coded")
    content = restore(entry, Coding.choose(model, entry.options), chunks)
    require(next(chunks, None) is None, "too many chunks")
    return content


def restore_raw(entry: Entry) -> Content:
    """The content of an entry that no model coded."""
    (raw,) = entry.chunks
    if entry.kind == TEXT:
        return decode_utf8(raw, entry.fields[0])
    if entry.kind == BYTES:
        return raw
    if entry.kind in SOUNDS:
        return np.frombuffer(raw, "<i2").reshape((-1, 2) if entry.kind == STEREO else -1)
    width, height = entry.fields
    return np.frombuffer(raw, np.uint8).reshape(height, width, *(() if entry.kind == GREY else (-1,)))


def restore_image(entry: Entry, coding: Coding, chunks: Iterator[bytes]) -> Array:
    """The pixels of a coded image."""
    (width, height), channels = entry.fields, coding.model.shape[2]
    has_colours, has_alpha = entry.kind in (RGB, RGBA), entry.kind in (GREY_ALPHA, RGBA)
    equal, form = divmod(entry.side[0] if entry.side else 7, 8)
    require(equal <= has_colours and (form != 7) == has_alpha, "side bytes that no image of its kind has")
    require(has_alpha or len(entry.side) == equal, "side bytes without a meaning")
    canvas_colours = 3 if has_colours and not equal else 1
    hidden, size = np.arange(channels) >= canvas_colours, (height, width, channels)
    planes = [decode_canvas(coding, chunks, size, hidden) for _ in range(3 if canvas_colours > channels else 1)]
    if len(planes) == 3:
        green, red, blue = planes
        planes = [(red + green - 128) % 256, green, (blue + green - 128) % 256]
    pixels = np.concatenate(planes, axis=2)[:, :, :canvas_colours]
    if equal:
        pixels = np.repeat(pixels, 3, axis=2)
    if has_alpha:
        pixels = np.concatenate([pixels, restore_alpha(form, entry.side[1:], height, width)], axis=2)
    return (pixels[:, :, 0] if entry.kind == GREY else pixels).astype(np.uint8)


def restore_alpha(form: int, side: bytes, height: int, width: int) -> Array:
    """The plane of alpha (height, width, 1)."""
    require(form < 5 and (form < 4 or len(side) == 1), "wrong side bytes of alpha")
    if form == 4:
        return np.full((height, width, 1), side[0], np.uint8)
    plain = inflate(side, height * width)
    require(len(plain) == height * width, "a plane of alpha of a wrong size")
    plane = np.frombuffer(plain, np.uint8).reshape(height, width, 1)
    for axis in {0: (), 1: (1,), 2: (0,), 3: (0, 1)}[form]:
        plane = np.cumsum(plane, axis=axis, dtype=np.uint8)
    return plane


def restore_characters(entry: Entry, coding: Coding, chunks: Iterator[bytes]) -> str | bytes:
    """The text or the bytes of a coded entry."""
    (length,), alphabet = entry.fields, coding.model.description["alphabet"]
    if entry.kind == BYTES:
        require(not entry.side, "bytes with side bytes")
        return decode_canvas(coding, chunks, (length,)).astype(np.uint8).tobytes()
    hidden = read_hidden(entry.side, length) if entry.side else {}
    classes = decode_canvas(coding, chunks, (length,), np.isin(np.arange(length), list(hidden)))
    return "".join(hidden.get(place) or alphabet[k] for place, k in enumerate(classes))


def read_hidden(side: bytes, length: int) -> dict[int, str]:
    """The hidden characters of a text by their places."""
    require(side[0] < 2, "unknown form of side bytes")
    reader = Reader(inflate(side[1:], 5 * length + 10) if side[0] else side[1:])
    gaps = [reader.varint(high=length) for _ in range(reader.varint(1, length))]
    places = [place + i for i, place in enumerate(itertools.accumulate(gaps))]
    require(places[-1] < length, "a hidden character beyond the text")
    return dict(zip(places, decode_utf8(reader.rest(), len(places)), strict=True))


def restore_sound(entry: Entry, coding: Coding, chunks: Iterator[bytes]) -> Array:
    """The samples of a coded sound."""
    require(entry.side in ((b"", b"\1", b"\2") if entry.kind == STEREO else (b"",)), "wrong side bytes of a sound")
    left = decode_canvas(coding, chunks, entry.fields[:1]) - 2**15
    if entry.kind == MONO:
        return left.astype("<i2")
    right = left if entry.side == b"\2" else decode_canvas(coding, chunks, entry.fields[:1]) - 2**15
    if entry.side == b"\1":
        right = (left + right + 2**15) % 2**16 - 2**15
    return np.stack([left, right], axis=1).astype("<i2")


# ---- format.md: Orders -------------------------------------------------------------------------------------------

ORDERS = ("raster", "reverse", "spaced", "halton", "pseudorandom", "strands")


def make_order(name: str, shape: Sequence[int], seed: int = 0) -> list[int]:
    """The variables by rising rank."""
    if name == "halton" and len(shape) == 3:
        return first_visits(*shape)
    size = math.prod(shape)
    keys: dict[str, Callable[[int], Any]] = {
        "raster": lambda d: d,
        "reverse": lambda d: -d,
        "spaced": lambda d: spaced_key(d, shape),
        "halton": lambda d: mirrored(d, 2, (size - 1).bit_length()),
        "pseudorandom": lambda d: mix((mix(seed) + d) % 2**64),
    }
    return sorted(range(size), key=keys[name])


def spaced_key(variable: int, shape: Sequence[int]) -> tuple[int, ...]:
    """What the order `spaced` sorts by: places modulo the roots of the sides; the channel."""
    roots = [math.isqrt(n) + (n - math.isqrt(n) ** 2 > math.isqrt(n)) for n in shape]
    if len(shape) == 1:
        return (variable % roots[0],)
    pixel, channel = divmod(variable, shape[2])
    return pixel // shape[1] % roots[0], pixel % shape[1] % roots[1], channel


def mirrored(n: int, base: int, num_digits: int) -> int:
    """n with its digits reversed."""
    value = 0
    for _ in range(num_digits):
        value, n = value * base + n % base, n // base
    return value


def first_visits(height: int, width: int, channels: int) -> list[int]:
    """The order `halton` of images."""
    visited: dict[int, None] = {}
    for n in itertools.count():
        digits = n.bit_length()  # enough in every base; further zeros do not change the fraction
        scaled = zip((height, width, channels), (2, 3, 5), strict=True)
        row, column, channel = (size * mirrored(n, base, digits) // base**digits for size, base in scaled)
        visited.setdefault((row * width + column) * channels + channel)
        if len(visited) == height * width * channels:
            break
    return list(visited)


def mix(x: int) -> int:
    """The output function of SplitMix64."""
    z = (x + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


# ---- format.md: Levels, Symbols, Weights -------------------------------------------------------------------------

PRECISE = Context(prec=50)


def nearest(value: Decimal) -> int:
    """The nearest whole number, ties to even."""
    return int(value.to_integral_value(context=PRECISE))


@cache
def tables() -> tuple[Array, ...]:
    """EXP (d = 0..1110), INV (g = -256..1024), T (j = 0..2928) and GROW (j = 0..5120)."""
    exp = [PRECISE.exp(Decimal(-d) / 64) for d in range(1111)]
    inverse = [PRECISE.exp(Decimal(-g) / 64) for g in range(-256, 1025)]
    tail = [PRECISE.divide(2**32, PRECISE.add(1, PRECISE.exp(Decimal(j) / 128))) for j in range(2929)]
    grow = [PRECISE.multiply(2**25, PRECISE.exp(Decimal(j) / 512)) for j in range(5121)]
    scaled = [PRECISE.multiply(2**24, x) for x in exp], [PRECISE.multiply(2**32, x) for x in inverse], tail, grow
    return tuple(np.array([nearest(x) for x in table]) for table in scaled)


def shares_of_logits(logits: Array) -> Array:
    """EXP[max l - l_i] of each logit."""
    return tables()[0][np.minimum(logits.max() - logits, 1110)]


def weights_of_shares(shares: Array) -> Array:
    """Weights of at least 1 that sum to 2^24."""
    weights = shares * (2**24 - len(shares)) // shares.sum() + 1
    weights[shares.argmax()] += 2**24 - weights.sum()
    return weights


def logistic(y: int) -> int:
    """The function s, between the entries of T."""
    j, r = divmod(abs(y), 2**20)
    first, second = (int(tables()[2][min(i, 2928)]) for i in (j, j + 1))
    tail = first - ((first - second) * r >> 20)
    return tail if y < 0 else 2**32 - tail


def expanded(v: int) -> int:
    """A companded mean in 1/64 of a class, from the middle on."""
    j, r = divmod(min(abs(v), 2621439), 512)
    first, second, least = (int(tables()[3][i]) for i in (j, j + 1, 0))
    size = first + ((second - first) * r >> 9) - least >> 16
    return size if v >= 0 else -size


@dataclass(frozen=True)
class Depth:
    """How a class is reached over stages and spelled in symbols: the levels, and the weights of every symbol."""

    num_classes: int
    base: int | None
    parametrization: str
    absorbing_value: int | None = None
    num_components: int = 0
    min_log_scale: float = 0.0

    @cached_property
    def num_stages(self) -> int:
        """S, the least number with base^S >= K."""
        return next(s for s in itertools.count(1) if (self.base or self.num_classes) ** s >= self.num_classes)

    @cached_property
    def num_positions(self) -> int:
        """The number of symbols that a variable takes in one stage."""
        return len(f"{self.num_classes - 1:x}") if self.is_mixture else 1

    @property
    def is_mixture(self) -> bool:
        """Whether classes are spelled in hexadecimal digits."""
        return self.parametrization in ("logistic", "companded")

    @property
    def first_value(self) -> int:
        """The value at level 0."""
        absorbing_value = self.num_classes if self.absorbing_value is None else self.absorbing_value
        return 0 if self.base else absorbing_value

    @property
    def num_values(self) -> int:
        """V, the number of values that the network may see."""
        return max(self.num_classes, self.first_value + 1)

    def values_at(self, level: int, classes: Array) -> Array:
        """The values of these classes at a level of 1 or more."""
        return classes - classes % self.base ** (self.num_stages - level) if self.base else classes

    def children(self, stage: int, parent: int) -> tuple[int, int, int]:
        """The first child of a parent, the number of its children, and the number of classes below a whole one."""
        if self.base is None:
            return 0, self.num_classes, 1
        size = self.base ** (self.num_stages - 1 - stage)
        return parent, min(self.base, -((parent - self.num_classes) // size)), size

    def child(self, stage: int, parent: int, symbols: Sequence[int]) -> int:
        """The value that a variable with this parent and these symbols gets."""
        if self.is_mixture:
            return int("".join(f"{digit:x}" for digit in symbols), 16)
        first, _, size = self.children(stage, parent)
        return first + symbols[0] * size

    def weights(self, outputs: Array, stage: int, parent: int, digits: Sequence[int]) -> Array:
        """The row of a variable's next symbol, after the symbols `digits`."""
        if self.is_mixture:
            return weights_of_shares(self.shares_of_mixture(outputs, digits))
        first, number, size = self.children(stage, parent)
        if self.parametrization == "direct":
            return weights_of_shares(shares_of_logits(outputs[stage * self.base :][:number]))
        below = shares_of_logits(outputs[first : first + number * size])
        return weights_of_shares(np.add.reduceat(below, range(0, len(below), size)))

    def log_scale_limits(self) -> list[int]:
        """lo and hi, in 1/64 nat."""
        offset = PRECISE.ln(Decimal(self.num_classes - 1) / 2)
        exact = (PRECISE.multiply(64, PRECISE.add(Decimal(x), offset)) for x in (self.min_log_scale, 5))
        return [min(max(nearest(limit), -256), 1024) for limit in exact]

    def shares_of_mixture(self, outputs: Array, digits: Sequence[int]) -> Array:
        """The shares of the values that the digit after `digits` may have; in Python's integers."""
        num_classes, size = self.num_classes, 16 ** (self.num_positions - 1 - len(digits))
        prefix = self.child(0, 0, [0, *digits]) * 16 * size
        number = min(16, -((prefix - num_classes) // size))
        logits, means, log_scales = outputs.reshape(3, self.num_components)
        if self.parametrization == "companded":
            means = np.array([32 * (num_classes - 1) + expanded(int(v)) for v in means])
        masses, means = shares_of_logits(logits).tolist(), np.clip(means, -(2**24), 2**24).tolist()
        inverses = tables()[1][np.clip(log_scales, *self.log_scale_limits()) + 256].tolist()

        def cumulative(x: int) -> int:
            if x in (0, num_classes):
                return 2**32 * sum(masses) if x else 0
            parts = zip(masses, means, inverses, strict=True)
            return sum(mass * logistic((64 * x - 32 - mean) * inverse >> 11) for mass, mean, inverse in parts)

        borders = [cumulative(min(prefix + i * size, num_classes)) for i in range(number + 1)]
        shift = max(0, (borders[-1] - borders[0]).bit_length() - 38)
        return np.array([(after - before >> shift) + 1 for before, after in itertools.pairwise(borders)])


# ---- format.md: Schedules, Calls, Coder --------------------------------------------------------------------------


def pop_symbol(state: int, weights: Array, num_bits: int) -> tuple[int, int]:
    """A symbol whose weights sum to 2^num_bits, and the state without it."""
    rest, ends = state % 2**num_bits, weights.cumsum()
    symbol = int(np.searchsorted(ends, rest, side="right"))
    weight = int(weights[symbol])
    return symbol, (state >> num_bits) * weight + rest - (int(ends[symbol]) - weight)


class Stack:
    """The symbols of a payload, the last 16 of which are popped from one large number."""

    def __init__(self, payload: bytes, num_symbols: int) -> None:
        require(payload and payload[-1], "a payload is missing, empty or ends in a zero byte")
        self.words = [word for (word,) in struct.iter_unpack("<I", payload + bytes(-len(payload) % 4))]
        self.state, self.num_before = 0, max(0, num_symbols - 16)
        self.refill()
        self.refill()

    def refill(self) -> None:
        if self.words and self.state < 2**32:
            self.state = (self.state << 32) + self.words.pop()

    def read(self, rows: Sequence[Array]) -> list[int]:
        """The symbols of a run."""
        cut = min(len(rows), self.num_before)
        self.num_before -= cut
        symbols = [0] * len(rows)
        for i in sorted(range(cut), key=lambda i: len(rows[i])):
            if len(rows[i]) > 1:
                symbols[i], self.state = pop_symbol(self.state, rows[i], 24)
                self.refill()
        for i in range(cut, len(rows)):
            weights = rows[i] * (2**16 - len(rows[i])) // 2**24 + 1
            weights[rows[i].argmax()] += 2**16 - weights.sum()
            symbols[i], self.state = pop_symbol(self.number(), weights, 16)
        return symbols

    def number(self) -> int:
        """X: from the first call on the state is all that is left of the payload."""
        while self.words:
            self.state = (self.state << 32) + self.words.pop()
        return self.state


class Coding(NamedTuple):
    """A model with, for each stage, an order (the variables by rank) and the first ranks of its groups."""

    model: Model
    orders: list[Array]
    starts: list[list[int]]

    @classmethod
    def choose(cls, model: Model, options: Options) -> Coding:
        """What these options mean under the model."""
        own = model.description["coding"]
        name, seed = (ORDERS[options.order - 1], options.seed) if options.order else (own["order"], own["seed"])
        require(options.schedule <= len(own["schedules"]), "the model has no such schedule")
        schedule = own["schedules"][options.schedule - 1 if options.schedule else own["default"]]
        if name == "strands":
            size, lengths = math.prod(model.shape), [len(starts) for starts in schedule["starts"]]
            orders = [np.array(sorted(range(size), key=lambda d, k=length: d % k)) for length in lengths]
            return cls(model, orders, [[sum(d % k < j for d in range(size)) for j in range(k)] for k in lengths])
        order = np.array(make_order(name, model.shape, seed))
        return cls(model, [order] * len(schedule["starts"]), schedule["starts"])

    def groups(self, coded: Array) -> list[tuple[int, int, Array]]:
        """Stage, first rank and coded variables of every group that has any."""
        ends = [itertools.pairwise([*starts, math.prod(self.model.shape)]) for starts in self.starts]
        groups = [
            (stage, first, self.orders[stage][first:end]) for stage, pairs in enumerate(ends) for first, end in pairs
        ]
        groups = [(stage, first, variables[coded[variables]]) for stage, first, variables in groups]
        return [group for group in groups if len(group[2])]


def decode_payload(coding: Coding, payload: bytes, items: Sequence[Item]) -> None:
    """Gives the coded variables of a bundle's items their classes."""
    depth = coding.model.depth
    groups = [coding.groups(item.coded) for item in items]
    num_coded = sum(int(item.coded.sum()) for item in items)
    stack = Stack(payload, num_coded * depth.num_stages * depth.num_positions)
    for turn in range(max(map(len, groups))):
        decode_turn(coding, stack, [(items[i], *own[turn]) for i, own in enumerate(groups) if turn < len(own)])
    classes = np.concatenate([item.values[item.coded] for item in items]).astype("<u4")
    check = hashlib.blake2b(classes.tobytes(), digest_size=2).digest()
    require(stack.number() == 1 + int.from_bytes(check, "little"), "wrong check of a payload")


def decode_turn(coding: Coding, stack: Stack, calls: Sequence[tuple[Item, int, int, Array]]) -> None:
    """Decodes one group (stage, first rank, variables) of each of some items."""
    depth, ranks = coding.model.depth, [np.argsort(order) for order in coding.orders]
    values = [np.where(item.given, depth.values_at(s + 1, item.values), item.values) for item, s, _, _ in calls]
    masks = [item.given | item.coded & (ranks[s] < first) for item, s, first, _ in calls]
    stages, groups = [call[1] for call in calls], [call[3] for call in calls]
    outputs = network_outputs(coding.model, np.array(values), np.array(masks), np.array(stages), groups)
    parents = [item.values[group].tolist() for item, _, _, group in calls]
    spelled: list[list[list[int]]] = [[[] for _ in group] for group in groups]
    for _ in range(depth.num_positions):
        for i, stage in enumerate(stages):
            variables = zip(outputs[i], parents[i], spelled[i], strict=True)
            rows = [depth.weights(output, stage, parent, digits) for output, parent, digits in variables]
            spelled[i] = [[*before, symbol] for before, symbol in zip(spelled[i], stack.read(rows), strict=True)]
    for i, (item, stage, _, group) in enumerate(calls):
        symbols = zip(parents[i], spelled[i], strict=True)
        item.values[group] = [depth.child(stage, parent, digits) for parent, digits in symbols]


# ---- network.md: Operations --------------------------------------------------------------------------------------


def whole(x: Array, low: int, high: int) -> Array:
    """Floating-point numbers rounded to the nearest whole ones (ties to even) and clamped."""
    return np.clip(np.rint(x), low, high).astype(np.int64)


def norm(x: Array, gain: Array, limit: int) -> Array:
    """Rows (the last axis) of integers, scaled to the length `gain`."""
    squares = np.maximum(1, (x * x).sum(axis=-1, keepdims=True))
    return whole(x.astype(np.float32) * (gain / np.sqrt(squares.astype(np.float64))).astype(np.float32), -limit, limit)


def product(x: Array, tensors: Tensors, name: str) -> tuple[Array, Array]:
    """The sums over k of x_k weight[c, k], and their scale."""
    return x @ tensors[f"{name}.weight"].T, tensors[f"{name}.scale"]


def rescale(sums: Array, scale: Array, low: int) -> Array:
    return whole(sums.astype(np.float32) * scale, low, 127)


def add(x: Array | int, sums: Array, scale: Array) -> Array:
    return np.clip(x + whole(sums.astype(np.float32) * scale, -(2**30), 2**30), -(2**23), 2**23)


def squared(sums: Array, scale: Array) -> Array:
    z = np.maximum(np.float32(0), sums.astype(np.float32) * scale)
    return whole(z * z, 0, 127)


def half(x: Array, n: int) -> Array:
    """x / 2^n rounded to the nearest integer, ties to even."""
    return x + (1 << n - 1) - 1 + (x >> n & 1) >> n if n else x


def network_outputs(model: Model, values: Array, mask: Array, stages: Array, where: Sequence[Array]) -> list[Array]:
    """For each of B items (values and mask B x shape, stages B) the outputs (N, O) of the N variables in `where`."""
    tensors, kind = model.exact, model.description["config"]["network"]["kind"]
    network = {"unet": unet, "transformer": transformer, "paper-wavenet": wavenet}[kind]
    stream = network(model, values, mask.astype(np.int64), stages)
    rows = stream if kind == "paper-wavenet" else norm(stream, tensors["head_norm.gain"], 32767)
    rows = rows.reshape(len(values), -1, rows.shape[-1])
    outputs = []
    for item, variables in enumerate(where):
        pixel, channel = np.divmod(variables, model.grid[2])
        outputs.append(head(rows[item, pixel], channel, part(tensors, "head")))
    return outputs


def head(rows: Array, group: Array, tensors: Tensors) -> Array:
    """The outputs (N, O) of rows (N, F) that belong to these groups."""
    sums = np.einsum("nf,nof->no", rows, tensors["weight"][group])
    scaled = whole(sums.astype(np.float64) * tensors["scale"][group], -(2**30), 2**30)
    return scaled + tensors["bias"][group]


# ---- network.md: U-Net -------------------------------------------------------------------------------------------


def unet(model: Model, values: Array, mask: Array, stages: Array) -> Array:
    """The stream (B, height, width, F) after all blocks."""
    config, tensors, num_blocks = model.description["config"]["network"], model.exact, itertools.count()
    fold = (2, 2) if len(model.shape) == 3 else (1, 4)

    def blocks(stream: Array, level: int) -> Array:
        for _ in range(config["depths"][level]):
            stream = unet_block(stream, part(tensors, f"blocks.{next(num_blocks)}"))
        return stream

    (height, width, _), last = model.grid, len(config["widths"]) - 1
    edges = [(0, 0), (0, -height % fold[0] ** last), (0, -width % fold[1] ** last), (0, 0)]
    stream, skips = blocks(np.pad(unet_embedding(model, values, mask, stages), edges), 0), []
    for level in range(last):
        skips.append(folded(stream, *fold))
        down = part(tensors, f"down_blocks.{level}")
        stream = add(0, *product(norm(skips[-1], down["norm.gain"], 127), down, "product"))
        stream = blocks(stream, level + 1)
    for level in reversed(range(last)):
        up = part(tensors, f"up_blocks.{level}")
        stream = add(skips[level], *product(norm(stream, up["norm.gain"], 127), up, "product"))
        stream = blocks(unfolded(stream, *fold), level)
    return stream[:, :height, :width]


def unet_embedding(model: Model, values: Array, mask: Array, stages: Array) -> Array:
    """The stream (B, height, width, F) before all blocks."""
    values, mask = values.reshape(-1, *model.grid), mask.reshape(-1, *model.grid)
    if model.depth.num_stages == 1:
        values = np.where(mask, values, model.depth.num_values)
    channel = np.arange(model.grid[2])
    states = model.exact["embedding.states"][channel, 2 * stages[:, None, None, None] + mask]
    return (model.value_table[channel, values] + states).sum(axis=3)


def unet_block(stream: Array, tensors: Tensors) -> Array:
    """The stream after a block."""
    h = rescale(*product(mixed(stream, tensors), tensors, "expand"), 0)
    return add(stream, *product(h, tensors, "contract"))


def mixed(stream: Array, tensors: Tensors) -> Array:
    """The depthwise convolution of the norm of a stream (B, H, W, F)."""
    weight, (height, width) = tensors["depthwise.weight"], stream.shape[1:3]
    edges = [(size // 2, size - 1 - size // 2) for size in weight.shape[:2]]
    n = np.pad(norm(stream, tensors["norm.gain"], 2047), [(0, 0), *edges, (0, 0)])
    t = sum(n[:, a : a + height, b : b + width] * weight[a, b] for a, b in np.ndindex(*weight.shape[:2]))
    return rescale(t, tensors["depthwise.scale"], -127)


def folded(stream: Array, p: int, q: int) -> Array:
    """The p x q pixels of every fold in one row."""
    num, height, width, size = stream.shape
    split = stream.reshape(num, height // p, p, width // q, q, size)
    return split.swapaxes(2, 3).reshape(num, height // p, width // q, p * q * size)


def unfolded(stream: Array, p: int, q: int) -> Array:
    """The inverse of `folded`."""
    num, height, width, size = stream.shape
    split = stream.reshape(num, height, width, p, q, size // (p * q))
    return split.swapaxes(2, 3).reshape(num, height * p, width * q, size // (p * q))


def many_values(tensors: Tensors, num_values: int) -> Array:
    """The table `embedding.values` (1, V+1, F) where it is made."""
    a, b = np.divmod(np.arange(num_values), 256)
    (coarse_0, coarse_1), (fine_0, fine_1) = tensors["coarse"][:, a], tensors["fine"][:, b]
    waves = coarse_0 * fine_0 - coarse_1 * fine_1, coarse_1 * fine_0 + coarse_0 * fine_1
    values = half(half(np.concatenate(waves, axis=1), 14) @ tensors["weight"], int(tensors["shift"]))
    return np.pad(values, [(0, 1), (0, 0)])[None]


# ---- network.md: Transformer -------------------------------------------------------------------------------------


def transformer(model: Model, values: Array, mask: Array, stages: Array) -> Array:
    """The stream (B, D, F) after all blocks."""
    config, tensors = model.description["config"]["network"], model.exact
    stream = tensors["embedding.values"][0, values]
    if model.depth.num_stages > 1:
        stream = stream + tensors["embedding.states"][0, 2 * stages[:, None] + mask]
    for k in range(config["num_layers"]):
        block = part(tensors, f"blocks.{k}")
        stream = attention(stream, part(block, "attention"), part(tensors, "rotation"), config["head_width"])
        is_mixed = config.get("kernel", 1) > 1
        seen = mixed(stream[:, None], block)[:, 0] if is_mixed else norm(stream, block["norm.gain"], 127)
        hidden = squared(*product(seen, block, "expand"))
        stream = add(stream, *product(hidden, block, "contract"))
    return stream


def attention(stream: Array, tensors: Tensors, rotation: Tensors, head_width: int) -> Array:
    """The stream (B, D, F) after attention."""
    u = norm(stream, tensors["norm.gain"], 127)

    def heads(rows: Array) -> Array:  # (B, heads, D, w)
        return rows.reshape(*rows.shape[:2], -1, head_width).swapaxes(1, 2)

    def turned(name: str, scale: Array) -> Array:
        n = norm(heads(add(0, *product(u, tensors, name))), tensors[f"{name}_norm.gain"], 2047)
        (first, second), cos, sin = np.split(n, 2, axis=-1), rotation["cos"], rotation["sin"]
        pairs = np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
        return whole(pairs.astype(np.float64) * scale, -127, 127)

    query, key = turned("query", tensors["turn_scale"][0]), turned("key", tensors["turn_scale"][1])
    value = heads(rescale(*product(u, tensors, "value"), -127))
    score = query @ key.swapaxes(-1, -2)  # (B, heads, D, D)
    below = (score.max(axis=-1, keepdims=True) - score).astype(np.float32) * tensors["score_scale"]
    weight = rotation["exponential"][whole(below, 0, len(rotation["exponential"]) - 1)]
    mean = (weight @ value).astype(np.float64) / weight.sum(axis=-1, keepdims=True).astype(np.float64)
    mixed = whole(mean * tensors["mean_scale"][:, None], -127, 127).swapaxes(1, 2).reshape(stream.shape)
    return add(stream, *product(mixed, tensors, "output"))


# ---- network.md: Coding Transformer ------------------------------------------------------------------------------


def coding_sequence(length: int, window: int, strand: int) -> Iterator[tuple[int, int]]:
    """The position of each character in the sequence of ranks, and how many before it in its strand it may see."""
    for first in range(0, length, window):
        size = min(window, length - first)
        # A strand is as long as a window at most, also in a last window that is shorter than the others.
        for place, number in sorted(
            (offset % min(strand, window), offset // min(strand, window)) for offset in range(size)
        ):
            position = first + number * min(strand, window) + place
            yield position, position if number == 0 else place


def coding_outputs(model: Model, x: Array, window: int, strand: int) -> Array:
    """The outputs (T, O) for every character of a text (T), computed one character after another."""
    tensors, start = model.exact, model.depth.first_value
    num_layers = model.description["config"]["network"]["num_layers"]
    memories: list[tuple[list[Array], list[Array], dict[int, Array]]] = [([], [], {}) for _ in range(num_layers)]
    outputs = {}
    for position, num_before in coding_sequence(len(x), window, strand):
        stream = tensors["embedding.values"][0, x[position - 1] if num_before else start]
        for k, memory in enumerate(memories):
            stream = coding_block(stream, model, part(tensors, f"blocks.{k}"), position, num_before, memory)
        row = norm(stream[None], tensors["head_norm.gain"], 32767)
        outputs[position] = head(row, np.zeros(1, np.int64), part(tensors, "head"))[0]
    return np.array([outputs[position] for position in range(len(x))])


def coding_block(
    row: Array,
    model: Model,
    tensors: Tensors,
    position: int,
    num_before: int,
    memory: tuple[list[Array], list[Array], dict[int, Array]],
) -> Array:
    """The row (F) of a character after a block, which the memory of the layer learns."""
    keys, values, seen = memory
    config = model.description["config"]["network"]
    kernel, shape = config.get("kernel", 1), (-1, config["head_width"])
    attention = part(tensors, "attention")
    u = norm(row[None], attention["norm.gain"], 127)
    query = coding_turned(u, attention, "query", position, part(model.exact, "rotation"), shape[1])
    keys.append(coding_turned(u, attention, "key", position, part(model.exact, "rotation"), shape[1]))
    values.append(rescale(*product(u, attention, "value"), -127).reshape(shape))
    score = (np.array(keys) * query).sum(axis=-1)  # (M, heads)
    table = model.exact["rotation.exponential"]
    below = (score.max(axis=0) - score).astype(np.float32) * attention["score_scale"]
    weight = table[whole(below, 0, len(table) - 1)]
    total = (weight[..., None] * np.array(values)).sum(axis=0).astype(np.float64)
    mean = total / weight.sum(axis=0)[:, None].astype(np.float64)
    mixed = whole(mean * attention["mean_scale"], -127, 127).reshape(1, -1)
    row = add(row[None], *product(mixed, attention, "output"))[0]
    seen[position] = norm(row[None], tensors["norm.gain"], 127 if kernel == 1 else 2047)[0]
    y = seen[position]
    if kernel > 1:
        near = [a for a in range(kernel) if a <= num_before and position - a in seen]
        t = sum(seen[position - a] * tensors["depthwise.weight"][0, kernel - 1 - a] for a in near)
        y = rescale(t, tensors["depthwise.scale"], -127)
    hidden = squared(*product(y[None], tensors, "expand"))
    return add(row[None], *product(hidden, tensors, "contract"))[0]


def coding_turned(u: Array, tensors: Tensors, name: str, position: int, turns: Tensors, width: int) -> Array:
    """The turned query or key (heads, w) of a character."""
    part_of, limit = {"query": (0, 127), "key": (1, 63)}[name]
    n = norm(add(0, *product(u, tensors, name)).reshape(-1, width), tensors[f"{name}_norm.gain"], 2047)
    index = [position * int(step) % 2**32 // 2**20 for step in turns["steps"]]
    (first, second), cos, sin = np.split(n, 2, axis=-1), turns["cos"][index], turns["sin"][index]
    pairs = np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
    return whole(pairs.astype(np.float64) * tensors["turn_scale"][part_of], -limit, limit)


# ---- network.md: WaveNet -----------------------------------------------------------------------------------------


def wavenet(model: Model, values: Array, mask: Array, stages: Array) -> Array:
    """What the head sees (B, D, F)."""
    config, tensors, length = model.description["config"]["network"], model.exact, values.shape[1]
    steps = tensors["step.rows"]
    level = mask.sum(axis=1) * steps.shape[1] // (length + 1)
    stream, last = wavenet_input(model, values, mask, stages), config["num_blocks"] - 1
    total = np.zeros_like(stream)
    for k in range(last + 1):
        block, distance = part(tensors, f"blocks.{k}"), 2 ** (k % config["dilation_cycle"])
        y = rescale(stream + steps[stages, level, k][:, None], block["seen_scale"], -127)
        w, scale = product(neighbours(y, distance), block, "convolution")
        j = np.clip(whole(w.astype(np.float32) * scale, -(2**30), 2**30) + block["gate_bias"], -2048, 2047)
        signal, gate = np.split(tensors["gate.logistic"][2048 + j], 2, axis=-1)
        h = rescale((2 * signal - 4096) * gate, block["gate_scale"], -127)
        total = add(total, *product(h, block, "skip"))
        if k < last:
            stream = add(stream, *product(h, block, "residual"))
            stream = whole(stream.astype(np.float32) * np.float32(11863283 / 2**24), -(2**23), 2**23)
    rows = np.clip(total, -32767, 32767).reshape(-1, total.shape[-1])
    hidden = head(rows, np.zeros(len(rows), np.int64), part(tensors, "last"))
    return np.clip(hidden, 0, 32767).reshape(total.shape)


def wavenet_input(model: Model, values: Array, mask: Array, stages: Array) -> Array:
    """The stream (B, D, F) before all blocks."""
    tensors, num_stages = part(model.exact, "input"), model.depth.num_stages
    seen = values * mask if num_stages == 1 else values
    states = 2 * stages[:, None] + mask
    z = np.broadcast_to(tensors["bias"], (*values.shape, len(tensors["bias"]))).copy()
    for d in range(values.shape[1]):
        for a, weight in enumerate(tensors["weight"]):
            e = d + a - 1
            if 0 <= e < values.shape[1]:
                z[:, d] += seen[:, e, None] * weight[0] + weight[1 + states[:, e]]
    first = whole(z.astype(np.float64) * tensors["scale"], 0, 2**23)
    return np.concatenate([first, tensors["values"][values]], axis=-1)


def neighbours(y: Array, distance: int) -> Array:
    """The rows (B, D, 3F) of the variables before, at and after each one, at a distance; zeros outside."""
    length, padded = y.shape[1], np.pad(y, [(0, 0), (distance, distance), (0, 0)])
    return np.concatenate([padded[:, i : i + length] for i in (0, distance, 2 * distance)], axis=-1)


# ---- network.md: Model file, Identity ----------------------------------------------------------------------------

Tensors = dict[str, Array]
DTYPES = {"I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "F32": "<f4", "F64": "<f8", "BOOL": "|b1"}
KINDS = {"characters": TEXT, "text8": TEXT, "bytes": BYTES, "audio": MONO, "sc09": MONO}


def part(tensors: Tensors, name: str) -> Tensors:
    """The tensors whose names begin so, by the rest of their names."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): array for key, array in tensors.items() if key.startswith(prefix)}


@dataclass(frozen=True)
class Model:
    """A model file: its description and all of its tensors."""

    description: dict[str, Any]
    tensors: Tensors

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """(D), or (H, W, C) of images."""
        data = self.description["config"]["data"]
        names = ("num_variables",) if data["kind"] in KINDS else ("height", "width", "channels")
        return tuple(data[name] for name in names)

    @property
    def is_coding(self) -> bool:
        """Whether it is a coding model."""
        return self.description["kind"] == "exact coding model"

    @property
    def grid(self) -> tuple[int, ...]:
        """Height and width in pixels, and variables of a pixel."""
        return self.shape if len(self.shape) == 3 else (1, *self.shape, 1)

    @cached_property
    def kind(self) -> int:
        """The kind of a short file's entry."""
        default = RGB if self.grid[2] == 3 else GREY
        return KINDS.get(self.description["config"]["data"]["kind"], default)

    @property
    def fields(self) -> tuple[int, ...]:
        """The fields of a short file's entry."""
        if self.kind in IMAGES:
            return self.shape[1], self.shape[0]
        return (*self.shape, self.description["sample_rate"]) if self.kind == MONO else self.shape

    @cached_property
    def depth(self) -> Depth:
        num_classes = len(self.description["alphabet"]) if self.kind == TEXT else self.description["num_classes"]
        return Depth(num_classes, **self.description["config"]["depth"])

    @cached_property
    def exact(self) -> Tensors:
        """The network's tensors, integers as int64."""
        arrays = ((name, array) for name, array in self.tensors.items() if name.startswith("exact/"))
        return {name[6:]: array.astype(np.int64) if array.dtype.kind == "i" else array for name, array in arrays}

    @cached_property
    def value_table(self) -> Array:
        """`embedding.values` of a U-Net, as it stands or made."""
        embedding, num_values = part(self.exact, "embedding"), self.depth.num_values
        return many_values(embedding, num_values) if num_values > 4096 and self.grid[2] == 1 else embedding["values"]

    @cached_property
    def identity(self) -> bytes:
        """The 16 bytes that files name the model by."""
        facts = {name: self.description["config"][name] for name in ("depth", "network")}
        facts["coding"] = self.description["coding"]
        if self.is_coding:
            facts["method"] = "coding"
        else:
            facts["sample_rate"] = self.description["sample_rate"]
        facts["classes"] = self.description["alphabet" if self.kind in (TEXT, BYTES) else "num_classes"]
        facts |= {"kind": self.description["config"]["data"]["kind"], "shape": list(self.shape)}
        return self.digest(facts, [name for name in self.tensors if name.startswith(("exact/", "test/"))])

    def digest(self, facts: dict[str, Any], names: Sequence[str]) -> bytes:
        """BLAKE2b of the facts and of the tensors of these names."""
        digest = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode("ascii"), digest_size=16)
        for name in sorted(names, key=str.encode):
            tensor = self.tensors[name]
            digest.update(f"{name} torch.{tensor.dtype.name} {tensor.shape}".encode() + tensor.tobytes())
        return digest.digest()

    def self_test_outputs(self) -> Array:
        """What the network gives for the self-test; it must be `test/outputs`."""
        if self.is_coding:
            texts, lengths, where = (self.tensors[f"test/{name}"] for name in ("inputs", "lengths", "where"))
            rows = zip(texts, lengths.tolist(), where, strict=True)
            return np.array([coding_outputs(self, x, len(x), strand)[chosen] for x, strand, chosen in rows])
        inputs, mask, stage, where = (self.tensors[f"test/{name}"] for name in ("inputs", "mask", "stage", "where"))
        return np.array(network_outputs(self, inputs, mask, stage, where))


def read_model(data: bytes, kind: str = "exact model") -> Model:
    """The model of a model file, whose hash must be right."""
    reader, tensors = Reader(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data), {}
    header = json.loads(reader.take(struct.unpack("<Q", reader.take(8))[0]))
    description = json.loads(header.pop("__metadata__")["ardm"])
    require(description["kind"] == kind and description["format_version"] == 1, f"no {kind} of version 1")
    values = reader.rest()
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(values[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    stated = description.pop("hash")
    model = Model(description, tensors)
    require(model.digest(description, list(tensors)).hex() == stated, "wrong hash of a model file")
    return model


def find_model(models: Sequence[Model], digits: str) -> Model:
    """The only model whose identity begins with these hexadecimal digits."""
    found = [model for model in models if model.identity.hex().startswith(digits)]
    require(len(found) == 1, f"{len(found)} models at hand, not one, have an identity that begins {digits}")
    return found[0]


# ---- The two ways in ---------------------------------------------------------------------------------------------


def restore_file(data: bytes, models: Sequence[Model]) -> Content:
    """The content of a single or a short file."""
    return restore_entry(read_short(data, models) if is_short(data) else read_single(data), models)


def restore_archive(data: bytes, models: Sequence[Model]) -> dict[str, Content]:
    """The contents of an archive by their names."""
    return {name: restore_entry(entry, models) for name, entry in read_archive(data).items()}
