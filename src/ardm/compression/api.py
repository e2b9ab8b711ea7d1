"""Compression in two functions: `ardm.compress` and `ardm.decompress`."""

from functools import cache
from pathlib import Path

import numpy as np

from ardm.checkpoint import TrainedModel
from ardm.codec.batching import Batching
from ardm.codec.coding_plan import parse_order
from ardm.codec.format.entries import Limits
from ardm.compression.content_codec import CodecSet, ContentCodec, load_codec, unless_failed, verified_files
from ardm.errors import UsageError
from ardm.media.contents import content_of, value_of
from ardm.pretrained import bundled_models, find_model

Value = str | bytes | np.ndarray
Model = TrainedModel | Path | str
_bundled_codec = cache(load_codec)


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

    >>> import ardm
    >>> len(ardm.compress("text", "the cat sat on the mat", calls=5))
    26

    `model` is an exact model (on a GPU if `ardm.load` put it there), its path, or the name of a bundled model. Images
    have shape (height, width) or (height, width, channels); sounds (samples,) or (samples, 2), at the model's sample
    rate. Fewer network `calls` per window are faster and give a longer file; the file does not depend on `batch_size`.
    With `verify` the file is decoded and compared (half of the work); an ArdmError is raised if it differs.
    """
    codec = _codec(model)
    content = codec.layout.read(x) if isinstance(x, Path) else content_of(x, codec.sample_rate)
    options = codec.options(calls, None if order is None else parse_order(order))
    batching = Batching(batch_size=batch_size)
    (entry,) = codec.encode([codec.place(content)], options, batching)
    if not verify:
        return codec.file_of(entry)
    (data,) = verified_files(codec, [entry], [content], batching)
    return unless_failed(data)


def decompress(
    data: bytes, model: Model | None = None, *, limits: Limits | None = None, batch_size: int | None = None
) -> Value:
    """The str, bytes or array in a compressed file. By default the model is looked up among the bundled ones.

    >>> import ardm
    >>> data = ardm.compress("text", "the cat sat on the mat", calls=5)
    >>> ardm.decompress(data, "text")
    'the cat sat on the mat'

    Raises a DamagedError, UnknownVersionError, UnknownModelError or TooLargeError if it cannot be restored.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(f"a compressed file is bytes, got a {type(data).__name__}; read a path's bytes first")
    models = CodecSet(bundled_codecs() if model is None else [_codec(model)])
    (restored,) = models.decode([models.entry_of(data, limits)], Batching(batch_size=batch_size))
    return value_of(unless_failed(restored))


def bundled_codecs() -> list[ContentCodec]:
    """The codecs of all bundled models, loaded once."""
    return list(map(_bundled_codec, bundled_models().values()))


def _codec(model: Model) -> ContentCodec:
    model = getattr(model, "trained", model)  # what `ardm.load` returns holds a TrainedModel
    if isinstance(model, TrainedModel):
        return ContentCodec(model)
    path = find_model(model)
    return _bundled_codec(path) if path in bundled_models().values() else load_codec(path)
