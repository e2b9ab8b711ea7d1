"""Compression for the page: files to compressed ones and back, both verified, and where the bits went."""

import io
import time
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from ardm.apps.serve.inputs import PageRequest, as_file, encoded, plain_name
from ardm.apps.serve.jobs import Event, Job
from ardm.apps.serve.limits import PageLimits
from ardm.apps.serve.looks import looks_of, other_sizes, shown_bits
from ardm.apps.serve.models import LoadedModel, ModelStore
from ardm.apps.serve.sound import check_sound
from ardm.codec.batching import Batching
from ardm.codec.format.archive import is_archive
from ardm.codec.format.entries import Entry, Limits, Raw
from ardm.codec.format.options import Options, find_identity
from ardm.codec.format.single import SINGLE_SUFFIX
from ardm.codec.windows import num_windows
from ardm.compression.content_codec import CodecSet, ContentCodec
from ardm.data.image_files import DAMAGE, IMAGE_FORMATS
from ardm.errors import ArdmError, DamagedError, DataError, TooLargeError, UnknownModelError
from ardm.media.contents import Content
from ardm.media.layouts import restored_file, restored_suffix
from ardm.orders import Shape

SECONDS_A_BATCH = 0.2
"""Between two looks at whether a job is to stop."""
MEDIA_TYPES = {"text": "text/plain", "bytes": "application/octet-stream", "image": "image/png", "sound": "audio/wav"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Compression:
    """A file that a page wants compressed."""

    served: LoadedModel
    content: Content
    name: str
    num_bytes: int
    options: Options
    num_rows: int
    """Rows that the network evaluates to code it once."""
    with_bits: bool
    """Whether to measure where the bits go, which takes as long as compressing."""

    @classmethod
    def of(cls, served: LoadedModel, asked: PageRequest) -> "Compression":
        """What a request asks for; an error if the file cannot be kept exactly or is too much."""
        codec, data = served.exact_codec, asked.content("file")
        name = plain_name(asked.text("name", 1000), "file")
        budgets = [budget.calls for budget in served.coding_budgets()]
        num_calls = max(c for c in budgets if c <= asked.whole("calls", budgets[0], 2**31))
        content = read_content(codec, data, name, asked.limits)
        sizes = [canvas.values.shape for canvas in codec.place(content).canvases]
        compression = cls(
            served=served,
            content=content,
            name=name,
            num_bytes=len(data),
            options=codec.options(num_calls),
            num_rows=num_calls * total_windows(served, sizes),
            with_bits=asked.flag("bits"),
        )
        asked.limits.check_seconds(coding_seconds(served, compression.num_rows * compression.num_passes))
        return compression

    @property
    def num_passes(self) -> int:
        """To compress, to restore and, if so asked, to measure."""
        return 3 if self.with_bits else 2

    def run(self, job: Job) -> Event:
        """Compress, restore, compare and measure."""
        codec, clock = self.served.exact_codec, _Clock(job, self.served)
        job.expect(self.num_rows * self.num_passes)
        (entry,) = codec.encode([self.content], self.options, clock.batching("compressing"))
        seconds, data = clock.lap(), codec.file_of(entry)
        restored = _decoded(CodecSet([codec]), data, clock.batching("restoring and comparing"))
        if restored != self.content:
            raise ArdmError("it is not restored exactly, so there is no compressed file; please report this")
        verify_seconds, is_raw = clock.lap(), isinstance(entry.content, Raw)
        return {
            "file": encoded(data),
            "name": self.name + SINGLE_SUFFIX,
            "original": self.num_bytes,
            "compressed": len(data),
            "others": other_sizes(self.content),
            "variables": self.content.num_variables,
            "seconds": round(seconds, 3),
            "restore_seconds": round(verify_seconds, 3),
            "stored": is_raw,
            "looks": looks_of(self.content),
            "bits": None if is_raw or not self.with_bits else self._bits(clock),
        }

    def _bits(self, clock: "_Clock") -> Event:
        batching = clock.batching("measuring bits")
        return shown_bits(self.content, self.served.exact_codec.measure(self.content, self.options, batching))


@dataclass(frozen=True, kw_only=True, eq=False)
class Restoration:
    """A compressed file that a page wants restored."""

    shelf: ModelStore
    entry: Entry
    name: str
    num_bytes: int

    @classmethod
    def of(cls, shelf: ModelStore, asked: PageRequest) -> "Restoration":
        """What a request asks for; an error if it is damaged, of another model or too much."""
        data, name = asked.content("file"), plain_name(asked.text("name", 1000), f"file{SINGLE_SUFFIX}")
        if is_archive(data[:8]):
            raise DataError("this is an archive of several files; `ardm decompress` restores it")
        limits = asked.limits
        most_bytes = max(4 * limits.pixels, 4 * limits.characters, 2 * limits.sound_samples)
        try:
            entry = CodecSet(shelf.codecs).entry_of(data, Limits(content_bytes=most_bytes))
            restoration = cls(shelf=shelf, entry=entry, name=name, num_bytes=len(data))
            if (served := restoration.served) is not None:
                limits.check_seconds(coding_seconds(served, restoration.num_rows))
        except UnknownModelError as error:
            made = str(error).partition(",")[0]
            raise UnknownModelError(f"{name} was {made}, which this page does not have; serve that model too") from None
        return restoration

    @property
    def served(self) -> LoadedModel | None:
        """The model that it takes; none for what is stored."""
        if isinstance(self.entry.content, Raw):
            return None
        owners = {served.codec.identity: served for served in self.shelf.models.values() if served.codec is not None}
        return owners[find_identity(self.entry.content.options.model.hex(), owners)]

    @property
    def num_rows(self) -> int:
        """Rows that the network evaluates; a DamagedError for an entry that its model cannot have made."""
        served, coded = self.served, self.entry.content
        if served is None or isinstance(coded, Raw):
            return 0
        assert served.trained.exact is not None
        plan, layout = served.trained.exact.coding, served.exact_codec.layout
        number = plan.default if coded.options.schedule is None else coded.options.schedule
        if number >= len(plan.schedules) or not layout.takes(self.entry.fields):
            raise DamagedError("the file is damaged: it does not fit the model that it names")
        return plan.schedules[number].num_calls * total_windows(served, layout.sizes(self.entry.fields, coded.side))

    def run(self, job: Job) -> Event:
        """Restore; what is not what was compressed fails its checks."""
        started = time.perf_counter()
        job.expect(self.num_rows)
        batching = Batching() if self.served is None else _Clock(job, self.served).batching("restoring")
        (content,) = CodecSet(self.shelf.codecs).decode([self.entry], batching)
        if isinstance(content, ArdmError):
            raise DamagedError(f"the file is damaged: {content}") if isinstance(content, DamagedError) else content
        data = restored_file(content)
        return {
            "file": encoded(data),
            "name": self._restored_name(),
            "type": MEDIA_TYPES[content.fields.kind],
            "medium": content.fields.kind,
            "original": len(data),
            "compressed": self.num_bytes,
            "seconds": round(time.perf_counter() - started, 3),
            "looks": looks_of(content),
        }

    def _restored_name(self) -> str:
        stem, suffix = self.name.removesuffix(SINGLE_SUFFIX), restored_suffix(self.entry.fields)
        stem = stem if stem != self.name else f"{stem}.restored"
        return stem if suffix is None or stem.lower().endswith(suffix) else stem + suffix


class _Clock:
    """Follows the work of a job and learns how fast it is."""

    def __init__(self, job: Job, served: LoadedModel) -> None:
        self._job, self._served = job, served
        self._started, self._rows = time.perf_counter(), 0

    def batching(self, title: str) -> Batching:
        """Batches short enough to stop between them."""
        self._job.title = title
        num_variables = self._served.trained.model.num_variables
        a_row = self._served.coding_speed.seconds * num_variables
        batch_size = max(1, min(256, int(SECONDS_A_BATCH / max(a_row, 1e-6))))
        return Batching(batch_size=batch_size, on_batch=self._advance)

    def _advance(self, count: int) -> None:
        self._rows += count
        self._job.advance(count)

    def lap(self) -> float:
        """The seconds since the last lap."""
        now = time.perf_counter()
        seconds, rows = now - self._started, self._rows
        self._started, self._rows = now, 0
        self._served.coding_speed.learn(seconds, rows * self._served.trained.model.num_variables)
        return seconds


def total_windows(served: LoadedModel, sizes: Sequence[Shape]) -> int:
    """The windows over canvases of some sizes."""
    return sum(num_windows(size, served.trained.model.shape) for size in sizes if 0 not in size)


def coding_seconds(served: LoadedModel, num_rows: int) -> float:
    """What so many rows are expected to take."""
    return served.coding_speed.seconds * num_rows * served.trained.model.num_variables


def read_content(codec: ContentCodec, data: bytes, name: str, limits: PageLimits) -> Content:
    """The content of a user's file; an error before anything large is unfolded."""
    if name.lower().endswith(SINGLE_SUFFIX):
        raise DataError(f"{name} is compressed already; it can be restored here")
    check_sound(data, limits.sound_samples)
    if codec.layout.title == "images":
        check_image(data, name, limits.pixels)
    with as_file(data, name) as path:
        content = codec.layout.read(path)
    most = {"image": 4 * limits.pixels, "sound": limits.sound_samples}.get(content.fields.kind, limits.characters)
    if content.num_variables > most:
        raise TooLargeError(f"{name} has {content.num_variables:,} values; this page takes up to {most:,}")
    return content


def check_image(data: bytes, name: str, most: int) -> None:
    """A DataError for what is no image, or has too many pixels, from its header alone."""
    try:
        with Image.open(io.BytesIO(data), formats=IMAGE_FORMATS) as image:
            width, height = image.size
    except DAMAGE:
        raise DataError(f"{name} is no image that can be read; PNG, WebP, BMP, GIF, TIFF and JPEG are") from None
    if width * height > most:
        raise TooLargeError(f"{name} has {width} x {height} pixels; this page takes up to {most:,} in all")


def _decoded(models: CodecSet, data: bytes, batching: Batching) -> Content | ArdmError:
    (restored,) = models.decode([models.entry_of(data)], batching)
    return restored
