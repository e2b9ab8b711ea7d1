"""Facts about compressed files, archives, models and packed data sets, for `ardm info`."""

from pathlib import Path
from typing import Any

from ardm.checkpoint import AnyTrained, TrainedCoding, TrainedModel, load_any, num_parameters
from ardm.codec.format.archive import ArchiveReader, is_archive
from ardm.codec.format.entries import Coded, Entry, Limits
from ardm.codec.format.fields import BytesFields, Fields, ImageFields, SoundFields, TextFields
from ardm.codec.format.options import Options, OrderChoice
from ardm.codec.format.short import is_short, read_short
from ardm.codec.format.single import SINGLE_VERSION, is_single, read_single
from ardm.compression.api import bundled_codecs
from ardm.compression.content_codec import CodecSet, load_codec
from ardm.data.packed.description import is_packed, open_pack
from ardm.errors import ArdmError, DamagedError, DataError, TooLargeError, UnknownModelError
from ardm.media.contents import num_variables
from ardm.names import ARCHIVE_SUFFIX, CONFIG_FILE, SINGLE_SUFFIX
from ardm.pretrained import bundled_models, is_model

KEPT_AND_LOST = {
    "text": ("every character: the file is restored to the byte", "the file's dates and permissions"),
    "bytes": ("every byte", "the file's dates and permissions"),
    "image": (
        "every pixel, the size and the mode: grey or colour, with or without alpha",
        "the file's format (it is restored as PNG; palettes are expanded, single bits become grey) and metadata: "
        "profiles, EXIF, text, resolution, dates",
    ),
    "sound": (
        "every sample, the channels and the rate",
        "the file's format (it is restored as WAV) and everything else in its headers: tags, markers, dates",
    ),
}
"""Properties that are kept and lost, by kind of content."""


def facts_of(source: Path, model: Path | None = None) -> dict[str, Any]:
    """The facts of a compressed file, an archive, a run, a model or a packed data set.

    Most facts of a short file need its model: `model`, or else a bundled one.
    """
    path = source if source.exists() else bundled_models().get(str(source), source)
    if not path.exists():
        raise DataError(f"there is no file or folder {path}")
    facts = _packed_facts(path) if path.is_dir() else _compressed_facts(path, model)
    if facts is not None:
        return facts
    if not is_model(path) and not (path / CONFIG_FILE).exists():
        raise DataError(f"{path} is neither a model, a run nor a compressed file")
    return _model_facts(load_any(path))


def _packed_facts(folder: Path) -> dict[str, Any] | None:
    """The facts of a packed data set; None for another folder."""
    if not is_packed(folder):
        return None
    about = open_pack(folder).about
    facts: dict[str, Any] = {"kind": about.name, "data": about.title, "published": about.is_published}
    facts |= dict(zip(("train", "valid", "test"), about.counts, strict=True))
    if about.medium == "text":
        facts["alphabet"] = about.characters or "bytes"
    facts |= {"sample_rate": about.sample_rate, "channels": about.channels, "size": about.size and list(about.size)}
    return facts | {"shards": len(about.shards), "bytes": about.num_bytes, "fingerprint": about.fingerprint}


def _compressed_facts(path: Path, model: Path | None) -> dict[str, Any] | None:
    """The facts of a compressed file or an archive; None for another file."""
    with path.open("rb") as file:
        start = file.read(8)
        if is_archive(start) or path.suffix == ARCHIVE_SUFFIX:
            return _archive_facts(ArchiveReader(file), path.stat().st_size)
    is_certain = is_single(start) or path.suffix == SINGLE_SUFFIX
    if not is_certain and not is_short(start):
        return None
    try:
        Limits().check("content_bytes", path.stat().st_size)
        data = path.read_bytes()
        return short_facts(data, model) if is_short(data) else _single_facts(read_single(data), len(data))
    except (DamagedError, TooLargeError):
        if is_certain:
            raise
        return None  # other files may begin with the byte of a short file


def _single_facts(entry: Entry, num_bytes: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"format": f"compressed file, version {SINGLE_VERSION}", "kind": entry.fields.kind}
    facts |= _field_facts(entry.fields)
    content = entry.content
    facts["stored"] = "coded" if isinstance(content, Coded) else "raw"
    if isinstance(content, Coded):
        facts |= {"chunks": len(content.chunks), "side_bytes": len(content.side)} | _option_facts(content.options)
    return facts | _sizes_and_kept(entry.fields, num_bytes)


def short_facts(data: bytes, model: Path | None = None) -> dict[str, Any]:
    """The facts of a short file; few of them if its model is neither given nor bundled."""
    short, models = read_short(data), CodecSet(bundled_codecs() if model is None else [load_codec(model)])
    facts: dict[str, Any] = {"format": f"short compressed file, version {short.version}"}
    own = {"stored": "coded", "model": short.model, "order": "the model's own", "schedule": "the model's own"}
    try:
        fields = models.entry_of(data).fields
    except UnknownModelError:
        content = "one item of the shape of its model, which is not available; for more, give --model MODEL"
        return facts | {"content": content} | own | {"bytes": len(data)}
    return facts | {"kind": fields.kind} | _field_facts(fields) | own | _sizes_and_kept(fields, len(data))


def _sizes_and_kept(fields: Fields, num_bytes: int) -> dict[str, Any]:
    return _size_facts(fields, num_bytes) | dict(zip(("kept", "not_kept"), KEPT_AND_LOST[fields.kind], strict=True))


def _archive_facts(reader: ArchiveReader, num_bytes: int) -> dict[str, Any]:
    """The facts of an archive and of its entries, which are checked one at a time."""
    kinds = sorted({listing.header.fields.kind for listing in reader.listings.values()})
    facts: dict[str, Any] = {"format": "archive, version 1", "entries": len(reader.listings), "kinds": kinds}
    facts |= {"bytes": num_bytes, "index": "damaged: entries were found by a scan" if reader.recovered else "fine"}
    facts |= {} if reader.options is None else _option_facts(reader.options)
    facts["kept"] = {kind: KEPT_AND_LOST[kind][0] for kind in kinds}
    facts["not_kept"] = {kind: KEPT_AND_LOST[kind][1] for kind in kinds} | {"archive": "empty folders"}
    facts["listing"] = []
    for name, listing in reader.listings.items():
        fields, options = listing.header.fields, listing.header.options
        entry = {"name": name, "kind": fields.kind} | _field_facts(fields)
        entry |= {"stored": "raw" if listing.header.raw else "coded"}
        entry |= {} if options is None or options == reader.options else _option_facts(options)
        facts["listing"].append(entry | _size_facts(fields, listing.length) | {"check": _check(reader, name)})
    return facts


def _check(reader: ArchiveReader, name: str) -> str:
    """`fine`, or the error of an entry."""
    try:
        reader.read(name)
    except ArdmError as error:
        return str(error).removeprefix(f"entry {name!r} is ")
    return "fine"


def _field_facts(fields: Fields) -> dict[str, Any]:
    match fields:
        case TextFields():
            return {"characters": fields.length}
        case BytesFields():
            return {"length": fields.length}
        case ImageFields():
            return {"width": fields.width, "height": fields.height, "mode": fields.mode}
        case SoundFields():
            return {"samples": fields.num_samples, "channels": fields.num_channels, "sample_rate": fields.sample_rate}


def _size_facts(fields: Fields, num_bytes: int) -> dict[str, Any]:
    count = num_variables(fields)
    return {"bytes": num_bytes, "bits_per_variable": 8 * num_bytes / count if count else None}


def _option_facts(options: Options) -> dict[str, Any]:
    order = "the model's own" if options.order is None else _order_name(options.order)
    schedule = "the model's own" if options.schedule is None else options.schedule
    return {"model": options.model.hex(), "order": order, "schedule": schedule}


def _order_name(order: OrderChoice) -> str:
    return order.name + (f":{order.seed}" if order.name == "pseudorandom" else "")


def _model_facts(trained: AnyTrained) -> dict[str, Any]:
    config, model = trained.config, trained.model
    facts = {
        "preset": config.preset,
        "method": config.method.name,
        "parameters": num_parameters(trained),
        "step": trained.step,
        "steps": config.train.steps,
        "seed": config.seed,
        "data": trained.data_title,
        "shape": list(model.shape),
        "variables": model.num_variables,
        "classes": model.num_classes,
    }
    if config.method.is_diffusion:
        facts["diffusion_steps"] = config.method.num_steps
    if isinstance(trained, TrainedModel):
        facts |= {"stages": model.num_stages, "profile": trained.profile_source}
        facts |= {"profile_observations": int(trained.profile.counts.sum())}
    if trained.alphabet is not None:
        facts["alphabet"] = trained.alphabet.characters
    if trained.sample_rate is not None:
        facts["sample_rate"] = trained.sample_rate
    if isinstance(trained, TrainedModel) and trained.exact is not None:
        exact, coding = trained.exact, trained.exact.coding
        facts |= {
            "identity": exact.identity.hex(),
            "order": _order_name(coding.order),
            "calls": coding.schedules[coding.default].num_calls,
            "other_calls": [s.num_calls for i, s in enumerate(coding.schedules) if i != coding.default],
        }
    if isinstance(trained, TrainedCoding) and trained.exact is not None:
        facts |= {"identity": trained.exact.identity.hex(), "calls": trained.exact.calls}
    return facts | {"config": config.to_dict()}
