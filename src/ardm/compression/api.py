"""Compression in two functions: `ardm.compress` and `ardm.decompress`."""

from functools import cache
from pathlib import Path

import numpy as np

from ardm import pretrained
from ardm.checkpoint import TrainedModel
from ardm.codec.canvases import Batching
from ardm.codec.format.entries import Limits
from ardm.codec.plan import parse_order
from ardm.compression.content_codec import CodecSet, ContentCodec, Restored
from ardm.errors import ArdmError, DamagedError, UsageError
from ardm.media.contents import Content, content_of, value_of

Value = str | bytes | np.ndarray
Model = TrainedModel | Path | str


def compress(
    model: Model,
    x: Value | Path,
    *,
    calls: int | None = None,
    order: str | None = None,
    batch_size: int | None = None,
    verify: bool = True,
) -> bytes:
    """A compressed file of a text (str), bytes, an image (uint8 array), a sound (int16 array) or a file (Path).

    `model` is an exact model (on a GPU if `ardm.load` put it there), its path or its name in the box. Images have shape
    (height, width) or (height, width, channels); sounds (samples,) or (samples, 2), at the model's own rate. With fewer
    `calls` of the network for each window it is faster and the file is longer; `batch_size` changes no byte. With
    `verify` the file is decoded and compared, which takes about half of the time; an ArdmError if it does not restore
    exactly.
    """
    codec = _codec(model)
    content = codec.layout.read(x) if isinstance(x, Path) else content_of(x, codec.sample_rate)
    options = codec.options(calls, None if order is None else parse_order(order))
    batching = Batching(batch_size=batch_size)
    (entry,) = codec.encode([content], options, batching)
    data = codec.file_of(entry)
    if verify and _restored(data, codec, batching) != content:
        raise ArdmError("it is not restored exactly, so there is no compressed file; please report this")
    return data


def decompress(
    data: bytes, model: Model | None = None, *, limits: Limits | None = None, batch_size: int | None = None
) -> Value:
    """What a compressed file holds: a str, bytes or an array. Without a model: by one in the box, or stored as it is.

    A DamagedError, an UnknownVersionError, an UnknownModelError or a TooLargeError where it cannot be restored.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(f"a compressed file is bytes, got a {type(data).__name__}; of a path read them first")
    models = CodecSet(boxed_codecs() if model is None else [_codec(model)])
    (restored,) = models.decode([models.entry_of(data, limits)], Batching(batch_size=batch_size))
    if isinstance(restored, Content):
        return value_of(restored)
    raise DamagedError(f"the file is damaged: {restored}") if isinstance(restored, DamagedError) else restored


def _restored(data: bytes, codec: ContentCodec, batching: Batching) -> Restored:
    models = CodecSet([codec])
    (restored,) = models.decode([models.entry_of(data)], batching)
    return restored


def _codec(model: Model) -> ContentCodec:
    if isinstance(model, TrainedModel):
        return ContentCodec(model)
    path = pretrained.find_model(model)
    return _boxed_codec(path) if path in pretrained.box().values() else ContentCodec(pretrained.load(path))


@cache
def _boxed_codec(path: Path) -> ContentCodec:
    """Models in the box are loaded once."""
    return ContentCodec(pretrained.load(path))


def boxed_codecs() -> list[ContentCodec]:
    """The codecs of all models in the box."""
    return list(map(_boxed_codec, pretrained.box().values()))
