"""Compression for the page: files compressed and restored, both verified, and their bits by place."""

import io
import time
from collections.abc import Sequence

from PIL import Image

from ardm.apps.serve.display import bits_display, display, other_sizes
from ardm.apps.serve.inputs import PageRequest, as_file, encoded, plain_name
from ardm.apps.serve.jobs import Event, Job
from ardm.apps.serve.limits import PageLimits
from ardm.apps.serve.models import ModelStore, PageModel
from ardm.apps.serve.sounds import check_sound
from ardm.codec.batching import Batching
from ardm.codec.format.archive import is_archive
from ardm.codec.format.entries import Coded, Limits, Raw
from ardm.codec.format.fields import Fields
from ardm.codec.windows import num_windows
from ardm.compression.content_codec import CodecSet, ContentCodec, unless_failed, verified_files
from ardm.data.image_files import IMAGE_FORMATS, READ_ERRORS
from ardm.errors import DamagedError, DataError, TooLargeError, UnknownModelError
from ardm.media.contents import Content, restored_file, restored_suffix
from ardm.names import SINGLE_SUFFIX, Shape

BATCH_SECONDS = 0.2
"""Maximum time of a batch: a job can stop only between batches."""
MEDIA_TYPES = {"text": "text/plain", "bytes": "application/octet-stream", "image": "image/png", "sound": "audio/wav"}


class Compression:
    """A file to compress for a page; an error if it cannot be restored exactly or is too large."""

    def __init__(self, model: PageModel, request: PageRequest) -> None:
        codec, data = model.exact_codec, request.content("file")
        self.model, self.num_bytes = model, len(data)
        self.name = plain_name(request.text("name", 1000), "file")
        budgets = [budget.calls for budget in model.coding_budgets()]
        num_calls = max(c for c in budgets if c <= request.integer("calls", budgets[0], 2**31))
        self.options = codec.options(num_calls)
        self.placed = codec.place(read_content(codec, data, self.name, request.limits))
        sizes = [canvas.values.shape for canvas in self.placed.canvases]
        self.with_bits = request.flag("bits")
        num_passes = 3 if self.with_bits else 2  # compress, restore, measure
        self.num_rows = num_passes * num_calls * total_windows(model, sizes)
        request.limits.check_seconds(coding_seconds(model, self.num_rows))

    def run(self, job: Job) -> Event:
        """Compress, restore, compare, and measure if requested."""
        codec, clock, content = self.model.exact_codec, _Clock(job, self.model), self.placed.content
        job.expect(self.num_rows)
        (entry,) = codec.encode([self.placed], self.options, clock.batching("compressing"))
        seconds = clock.lap()
        (file,) = verified_files(codec, [entry], [content], clock.batching("restoring and comparing"))
        data = unless_failed(file)
        verify_seconds, is_raw, bits = clock.lap(), isinstance(entry.content, Raw), None
        if self.with_bits and not is_raw:
            measured = codec.measure(self.placed, self.options, clock.batching("measuring bits"))
            bits = bits_display(content, measured)
        return {
            "file": encoded(data),
            "name": self.name + SINGLE_SUFFIX,
            "original": self.num_bytes,
            "compressed": len(data),
            "others": other_sizes(content),
            "variables": content.num_variables,
            "seconds": round(seconds, 3),
            "restore_seconds": round(verify_seconds, 3),
            "stored": is_raw,
            "looks": display(content),
            "bits": bits,
        }


class Restoration:
    """A compressed file to restore for a page; an error if it is damaged, from another model or too large."""

    def __init__(self, store: ModelStore, request: PageRequest) -> None:
        data = request.content("file")
        self.name, self.num_bytes = plain_name(request.text("name", 1000), f"file{SINGLE_SUFFIX}"), len(data)
        if is_archive(data[:8]):
            raise DataError("this is an archive of several files; `ardm decompress` restores it")
        limits, self.codecs = request.limits, CodecSet(store.codecs)
        max_bytes = max(4 * limits.pixels, 4 * limits.characters, 2 * limits.sound_samples)
        self.model: PageModel | None = None  # none for a stored file
        self.num_rows = 0
        try:
            self.entry = self.codecs.entry_of(data, Limits(content_bytes=max_bytes))
            if isinstance(self.entry.content, Coded):
                self.model = store.find_by_identity(self.entry.content.options.model)
                self.num_rows = coded_rows(self.model, self.entry.fields, self.entry.content)
                limits.check_seconds(coding_seconds(self.model, self.num_rows))
        except UnknownModelError as error:
            made = str(error).partition(",")[0]
            raise UnknownModelError(
                f"{self.name} was {made}, which this page does not have; serve that model too"
            ) from None

    def run(self, job: Job) -> Event:
        """Restore; damaged content fails its checks."""
        started = time.perf_counter()
        job.expect(self.num_rows)
        batching = Batching() if self.model is None else _Clock(job, self.model).batching("restoring")
        (restored,) = self.codecs.decode([self.entry], batching)
        content = unless_failed(restored)
        data = restored_file(content)
        return {
            "file": encoded(data),
            "name": self._restored_name(),
            "type": MEDIA_TYPES[content.fields.kind],
            "medium": content.fields.kind,
            "original": len(data),
            "compressed": self.num_bytes,
            "seconds": round(time.perf_counter() - started, 3),
            "looks": display(content),
        }

    def _restored_name(self) -> str:
        stem, suffix = self.name.removesuffix(SINGLE_SUFFIX), restored_suffix(self.entry.fields)
        stem = stem if stem != self.name else f"{stem}.restored"
        return stem if suffix is None or stem.lower().endswith(suffix) else stem + suffix


class _Clock:
    """Reports the progress of a job and measures its speed."""

    def __init__(self, job: Job, model: PageModel) -> None:
        self._job, self._model = job, model
        self._started, self._rows = time.perf_counter(), 0

    def batching(self, title: str) -> Batching:
        """Batches that take little time, so that the job can stop between them."""
        self._job.title = title
        num_variables = self._model.ardm.num_variables
        row_seconds = self._model.coding_speed.seconds * num_variables
        batch_size = max(1, min(256, int(BATCH_SECONDS / max(row_seconds, 1e-6))))
        return Batching(batch_size=batch_size, on_batch=self._advance)

    def _advance(self, count: int) -> None:
        self._rows += count
        self._job.advance(count)

    def lap(self) -> float:
        """The seconds since the last lap, from which the model's speed is updated."""
        now = time.perf_counter()
        seconds, rows = now - self._started, self._rows
        self._started, self._rows = now, 0
        self._model.coding_speed.learn(seconds, rows * self._model.ardm.num_variables)
        return seconds


def coded_rows(model: PageModel, fields: Fields, coded: Coded) -> int:
    """Rows that the network evaluates; a DamagedError for an entry that its model cannot have written."""
    assert model.trained.exact is not None
    plan, layout = model.trained.exact.coding, model.exact_codec.layout
    number = plan.default if coded.options.schedule is None else coded.options.schedule
    if number >= len(plan.schedules) or not layout.takes(fields):
        raise DamagedError("the file is damaged: it does not fit the model that it names")
    return plan.schedules[number].num_calls * total_windows(model, layout.sizes(fields, coded.side))


def total_windows(model: PageModel, sizes: Sequence[Shape]) -> int:
    """The number of windows that cover canvases of these sizes."""
    return sum(num_windows(size, model.ardm.shape) for size in sizes if 0 not in size)


def coding_seconds(model: PageModel, num_rows: int) -> float:
    """The expected time, in seconds, to code this many rows."""
    return model.coding_speed.seconds * num_rows * model.ardm.num_variables


def read_content(codec: ContentCodec, data: bytes, name: str, limits: PageLimits) -> Content:
    """The content of a user's file; an error before anything large is decoded."""
    if name.lower().endswith(SINGLE_SUFFIX):
        raise DataError(f"{name} is already compressed; it can be restored here")
    check_sound(data, limits.sound_samples)
    if codec.layout.title == "images":
        check_image(data, name, limits.pixels)
    with as_file(data, name) as path:
        content = codec.layout.read(path)
    max_values = {"image": 4 * limits.pixels, "sound": limits.sound_samples}.get(content.fields.kind, limits.characters)
    if content.num_variables > max_values:
        raise TooLargeError(f"{name} has {content.num_variables:,} values; this page takes up to {max_values:,}")
    return content


def check_image(data: bytes, name: str, max_pixels: int) -> None:
    """Raise a DataError for a file that is not an image or has too many pixels, from its header alone."""
    try:
        with Image.open(io.BytesIO(data), formats=IMAGE_FORMATS) as image:
            width, height = image.size
    except READ_ERRORS:
        raise DataError(f"{name} is not a readable image; use PNG, WebP, BMP, GIF, TIFF or JPEG") from None
    if width * height > max_pixels:
        raise TooLargeError(f"{name} has {width} x {height} pixels; this page takes up to {max_pixels:,} in all")
