"""What a compressed file or an archive is: facts for `ardm info`. Only short files need their model for it."""

from typing import Any

from ardm.codec.format.archive import ArchiveReader
from ardm.codec.format.directory import Listing
from ardm.codec.format.entries import Coded, Limits, Method
from ardm.codec.format.fields import BytesFields, Fields, ImageFields, SoundFields, TextFields
from ardm.codec.format.options import Options
from ardm.codec.format.short import is_short, read_short
from ardm.codec.format.single import SINGLE_VERSION, read_single
from ardm.compression.content_codec import CodecSet
from ardm.errors import ArdmError, UnknownModelError
from ardm.media.contents import num_variables

KEPT = {
    "text": ("every character: the file is restored to the byte", "the file's dates and permissions"),
    "bytes": ("every byte", "the file's dates and permissions"),
    "image": (
        "every pixel, the size and the mode: grey or colour, with or without alpha",
        "the file's format (it is restored as PNG; palettes are written out, single bits become grey) and metadata: "
        "profiles, EXIF, text, resolution, dates",
    ),
    "sound": (
        "every sample, the channels and the rate",
        "the file's format (it is restored as WAV) and everything else in its headers: tags, markers, dates",
    ),
}
"""Of each kind what is kept and what is not."""


def describe_file(data: bytes, limits: Limits | None = None, models: CodecSet | None = None) -> dict[str, Any]:
    """The facts of a compressed file; of a short one most are known to its model only."""
    if is_short(data):
        return _describe_short(data, models or CodecSet())
    entry = read_single(data, limits)
    facts: dict[str, Any] = {"format": f"compressed file, version {SINGLE_VERSION}", "kind": entry.fields.kind}
    facts |= size_facts(entry.fields)
    if isinstance(entry.content, Coded):
        facts |= {"stored": "coded", "chunks": len(entry.content.chunks), "side_bytes": len(entry.content.side)}
        facts |= option_facts(entry.content.options)
    else:
        facts |= {"stored": "raw"}
    return facts | _sizes_and_kept(entry.fields, len(data))


def _describe_short(data: bytes, models: CodecSet) -> dict[str, Any]:
    short = read_short(data)
    facts: dict[str, Any] = {"format": f"short compressed file, version {short.version}"}
    own = {"stored": "coded", "model": short.model, "order": "the model's own", "schedule": "the model's own"}
    try:
        fields = models.entry_of(data).fields
    except UnknownModelError:
        content = "one item of the shape of its model, which is not at hand: --model MODEL tells more"
        return facts | {"content": content} | own | {"bytes": len(data)}
    return facts | {"kind": fields.kind} | size_facts(fields) | own | _sizes_and_kept(fields, len(data))


def _sizes_and_kept(fields: Fields, num_bytes: int) -> dict[str, Any]:
    kept, not_kept = KEPT[fields.kind]
    return size_on_disk(fields, num_bytes) | {"kept": kept, "not_kept": not_kept}


def describe_archive(reader: ArchiveReader, num_bytes: int) -> dict[str, Any]:
    """The facts of an archive, with what the checks of its entries say; one of them at a time is in memory."""
    kinds = sorted({listing.header.fields.kind for listing in reader.listings.values()})
    facts: dict[str, Any] = {"format": "archive, version 1", "entries": len(reader), "kinds": kinds}
    facts |= {"bytes": num_bytes, "index": "damaged: entries were found by a scan" if reader.recovered else "fine"}
    facts |= {} if reader.options is None else option_facts(reader.options)
    facts["kept"] = {kind: KEPT[kind][0] for kind in kinds}
    facts["not_kept"] = {kind: KEPT[kind][1] for kind in kinds} | {"archive": "empty folders"}
    listing = [
        _listing_facts(one, reader.options) | {"check": _check(reader, name)} for name, one in reader.listings.items()
    ]
    return facts | {"listing": listing}


def _check(reader: ArchiveReader, name: str) -> str:
    """`fine`, or what is wrong with an entry."""
    try:
        reader.read(name)
    except ArdmError as error:
        return str(error).removeprefix(f"entry {name!r} is ")
    return "fine"


def _listing_facts(listing: Listing, shared: Options | None) -> dict[str, Any]:
    header = listing.header
    facts: dict[str, Any] = {"name": listing.name, "kind": header.fields.kind} | size_facts(header.fields)
    facts |= {"stored": "raw" if header.method >= Method.STORED else "coded"}
    if header.options is not None and header.options != shared:
        facts |= option_facts(header.options)
    return facts | size_on_disk(header.fields, listing.length)


def size_facts(fields: Fields) -> dict[str, Any]:
    """What an entry restores to."""
    match fields:
        case TextFields():
            return {"characters": fields.length}
        case BytesFields():
            return {"length": fields.length}
        case ImageFields():
            return {"width": fields.width, "height": fields.height, "mode": fields.mode}
        case SoundFields():
            return {"samples": fields.num_samples, "channels": fields.num_channels, "sample_rate": fields.sample_rate}


def size_on_disk(fields: Fields, num_bytes: int) -> dict[str, Any]:
    """The bytes of an entry, and what they come to for each of its variables."""
    count = num_variables(fields)
    return {"bytes": num_bytes, "bits_per_variable": 8 * num_bytes / count if count else None}


def option_facts(options: Options) -> dict[str, Any]:
    """The model and the choices that decoding needs."""
    order = "the model's own" if options.order is None else options.order.name
    if options.order is not None and options.order.name == "pseudorandom":
        order += f":{options.order.seed}"
    schedule = "the model's own" if options.schedule is None else options.schedule
    return {"model": options.model.hex(), "order": order, "schedule": schedule}
