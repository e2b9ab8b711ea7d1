"""ardm bench."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import tyro

from ardm.commands.common import (
    OutputPath,
    facts_of,
    hardware,
    load,
    make_schedule,
    require_a_call_a_stage,
    require_positive,
)
from ardm.commands.train import PresetName
from ardm.errors import UsageError
from ardm.files import check_writable
from ardm.output import to_json, write_output

if TYPE_CHECKING:
    from ardm.bench.codecs import CodecTiming
    from ardm.bench.exact_call import ExactCallTiming
    from ardm.bench.items import Media
    from ardm.bench.ours import OurCodec
    from ardm.bench.plain import BesidePlain
    from ardm.bench.plan import PlanTiming
    from ardm.bench.sampling import SampleTiming
    from ardm.bench.training import CallTiming, TrainTiming
    from ardm.checkpoint import TrainedModel
    from ardm.config import RunConfig
    from ardm.model import ARDM
    from ardm.runtime import Runtime
    from ardm.schedule import Schedule

Row = TypeVar("Row")
"""A dataclass with what was measured."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Time parts of ardm beside what they replace."""

    what: Annotated[
        tyro.conf.Positional[Literal["plan", "train", "call", "sample", "codec", "data"]], tyro.conf.arg(metavar="WHAT")
    ]
    """plan: the planner beside the paper's recurrence. train: the training steps of presets, on random items. call: one
    call of their networks, or of an exact model beside its float32 twin. sample: samples of presets, whose weights are
    random, or of a model. codec: an exact model's codec beside PNG, JPEG XL, PPMd, FLAC, ... data: the loader of a
    packed data set beside the training steps of presets."""
    files: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="FILE...")] = ()
    """Your own files, folders and patterns, taken whole as by `ardm compress`, one compressed file for each; empty ones
    are left out (codec)."""
    model: Path | None = None
    """An exact model's file, or its name in the box (codec, call); a run's folder or any model's file (sample)."""
    data: Path | None = None
    """Instead of files, a data set such as the model was trained on: items of the model's size, and what rivals learn
    from. A folder without the benchmark that the model is for is taken as files (codec). A packed data set (data)."""
    calls: tuple[int, ...] = ()
    """Budgets of calls to code with: for each the model's richest schedule within it; by default its own (codec).
    Calls for a sample, by default 20 50 (sample)."""
    items: tuple[int, ...] = ()
    """Items or files, by default 100, one of each of as many equal stretches of the split or of all files (codec).
    Numbers of samples, by default 1 4 16 64 256 1024 4096 (sample)."""
    split: Literal["test", "valid"] | None = None
    """Where items of a data set are from, by default test (codec)."""
    seed: int | None = None
    """Take random items of the stretches; by default their first ones (codec)."""
    ours_only: bool = False
    """Leave the other codecs out (codec)."""
    full: bool = False
    """Run the slow references of the planner at full size too (minutes)."""
    presets: tuple[PresetName, ...] = ()
    """What to train, to call or to sample from; for data by default the one of the data set's name, on
    a CPU the smaller one."""
    base: int | None = None
    """Train upscale models with digits in this base."""
    parametrization: Literal["data", "direct"] = "direct"
    """Of upscale models."""
    plain: Literal["eager", "compiled"] | None = None
    """Beside each preset, a plain PyTorch loop with a network of its size, by torch.compile or without (train)."""
    batch_size: int | None = None
    """Items of a step, by default the preset's (train); items of a call, by default 1 (call); rows of a call at most,
    by default as many as suit the device (codec); samples drawn together, by default 64 (sample)."""
    seconds: float = 10.0
    """About how long to time each preset (train, call) or row (sample: all its items are drawn once at least)."""
    needed: float | None = None
    """Items a second that training takes, known from elsewhere; by default training steps are timed (data)."""
    device: str | None = None
    """Where networks compute, such as cpu or cuda; by default CUDA where there is one."""
    no_compile: bool = False
    """Run networks as they are instead of compiling them first (CUDA only)."""
    json: bool = False
    """Print JSON."""
    output: OutputPath = None
    """Write JSON to this file instead."""

    @property
    def as_json(self) -> bool:
        """Whether nothing but JSON is wanted."""
        return self.json or self.output is not None

    def run(self) -> None:
        """Time and print."""
        check_writable(self.output)
        if self.files and self.what != "codec":
            raise UsageError(f"files are for ardm bench codec; ardm bench {self.what} takes none")
        commands = {
            "plan": self._run_plan,
            "train": self._run_train,
            "call": self._run_call,
            "sample": self._run_sample,
            "codec": self._run_codec,
            "data": self._run_data,
        }
        commands[self.what]()

    def _show(self, rows: Iterable[Row], header: str, line: Callable[[Row], str]) -> list[Row]:
        """Print each row when it has been measured, below a header, or write all of them as JSON."""
        shown: list[Row] = []
        for row in rows:
            if not self.as_json:
                print(line(row) if shown else f"{header}\n{line(row)}", flush=True)
            shown.append(row)
        if self.as_json:
            self._write_json([asdict(row) for row in shown])  # type: ignore[call-overload]
        return shown

    def _write_json(self, rows: list[dict[str, Any]]) -> None:
        """Each row with what it was measured on."""
        from ardm.runtime import Runtime

        machine = hardware(Runtime.choose("cpu" if self.what == "plan" else self.device).device)
        write_output(self.output, to_json([row | {"hardware": machine} for row in rows]))

    def _run_plan(self) -> None:
        from ardm.bench.plan import run_plan_benchmark

        header = f"{'':40} {'stages':>6} {'steps':>6} {'budgets':>8} {'seconds':>9} {'tables':>9}"
        self._show(run_plan_benchmark(full=self.full), header, plan_line)

    def _run_train(self) -> None:
        from ardm.bench.plain import check_plain, time_beside_plain
        from ardm.bench.training import time_training

        configurations = list(self._configurations())
        header = (
            f"{'':14} {'parameters':>11} {'batch':>5} {'step':>9} {'items/s':>9} {'TFLOP/s':>8} {'share':>6} "
            f"{'burst':>6} memory"
        )
        if self.plain is None:
            self._show((time_training(*where, seconds=self.seconds) for where in configurations), header, training_line)
            return
        for config, _ in configurations:
            check_plain(config)
        how: Any = {"seconds": self.seconds, "compiled": self.plain == "compiled"}
        self._show((time_beside_plain(*where, **how) for where in configurations), header, beside_plain_lines)

    def _run_call(self) -> None:
        if self.model is not None:
            self._run_exact_call(self.model)
            return
        from ardm.bench.training import time_call

        how: Any = {"batch_size": self.batch_size or 1, "seconds": self.seconds}
        rows = (time_call(config, runtime, **how) for config, runtime in self._configurations())
        self._show(rows, f"{'':14} {'parameters':>11} {'batch':>5} {'call':>11} {'GFLOP':>8}", call_line)

    def _run_exact_call(self, path: Path) -> None:
        if self.presets:
            raise UsageError("time the networks of presets or an exact model, not both")
        require_positive(batch_size=self.batch_size, seconds=self.seconds)
        from ardm.bench.exact_call import time_exact_call

        trained, *_ = load(path, self.device)
        if trained.exact is None:
            raise UsageError(f"{path} is no exact model; ardm export makes one of it")
        row = time_exact_call(trained, trained.exact, batch_size=self.batch_size or 1, seconds=self.seconds)
        self._show([row], f"{'parameters':>11} {'batch':>5} {'integers':>11} {'float32':>11}", exact_call_line)

    def _run_data(self) -> None:
        if self.data is None:
            raise UsageError("give a packed data set: ardm bench data --data PACKED")
        require_positive(needed=self.needed)
        from ardm.bench.loading import loader_header, loader_line, time_loader
        from ardm.media.packed import packed_name

        how: Any = {"needed": self.needed, "seconds": self.seconds}
        presets = self.presets or (self._preset_named(packed_name(self.data)),)
        rows = (time_loader(config, self.data, runtime, **how) for config, runtime in self._configurations(presets))
        self._show(rows, loader_header(), loader_line)

    def _preset_named(self, name: str) -> str:
        """The preset of a name, on a CPU the smaller one if there are two."""
        from ardm.presets import PRESETS
        from ardm.runtime import Runtime

        small = f"{name}-small"
        return small if Runtime.choose(self.device).device.type == "cpu" and small in PRESETS else name

    def _run_sample(self) -> None:
        from ardm.bench.sample_table import sample_header, sample_line

        self._show(self._sample_benchmark(), sample_header(), sample_line)

    def _sample_benchmark(self) -> "Iterator[SampleTiming]":
        """The rows, each measured when its turn comes."""
        require_positive(items=min(self.items, default=None), calls=min(self.calls, default=None))
        from ardm.bench.sampling import DEFAULT_CALLS, DEFAULT_ITEMS, time_sampling
        from ardm.runtime import Runtime
        from ardm.sample import BATCH_SIZE

        runtime = Runtime.choose(self.device, compile=not self.no_compile)
        batch_size = self.batch_size or BATCH_SIZE
        for name, model, schedule_of in self._models_to_sample():
            for schedule in [schedule_of(calls) for calls in self.calls or DEFAULT_CALLS]:
                for num_items in self.items or DEFAULT_ITEMS:
                    how: Any = {"num_items": num_items, "batch_size": batch_size, "seconds": self.seconds}
                    yield time_sampling(model, schedule, runtime, name=name, **how)

    def _models_to_sample(self) -> "Iterator[tuple[str, ARDM, Callable[[int], Schedule]]]":
        """The model or those of the presets, each with a function from calls to the schedule that they have."""
        from ardm.bench.sampling import random_model

        if self.model is None:
            for config, runtime in self._configurations():
                model = random_model(config, runtime)
                yield config.preset, model, partial(even_schedule, model)
            return
        if self.presets:
            raise UsageError("sample from presets or from a model, not both")
        require_positive(batch_size=self.batch_size, seconds=self.seconds)
        trained, *_ = load(self.model, self.device)
        yield self.model.name, trained.model, lambda calls: make_schedule(trained, calls, "planned")

    def _run_codec(self) -> None:
        media, benchmark = self._codec_benchmark()
        from ardm.bench.codec_table import codec_header, codec_line

        rows = self._show(benchmark, codec_header(media), codec_line)
        if not self.as_json:
            print_networks(rows)

    def _codec_benchmark(self) -> "tuple[Media, Iterator[CodecTiming]]":
        """What is coded, and the rows, each measured when its turn comes."""
        if self.model is None or bool(self.files) == (self.data is not None):
            raise UsageError(
                "give an exact model and files or data: ardm bench codec --model MODEL FILE... | --data DIR"
            )
        require_positive(items=self._num_items, batch_size=self.batch_size, calls=min(self.calls, default=None))
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"--seed must not be negative, got {self.seed}")
        from ardm.bench.ours import our_codecs

        trained, *_ = load(self.model, self.device)
        ours = our_codecs(trained, self.calls, batch_size=self.batch_size)
        media, rows = self._rows(trained, ours)
        model = facts_of(trained)
        return media, (replace(row, model=model if row.network else None) for row in rows)

    def _rows(self, trained: "TrainedModel", ours: "Sequence[OurCodec]") -> "tuple[Media, Iterator[CodecTiming]]":
        """The same, without what they were measured with."""
        from ardm.data.packed.description import is_packed
        from ardm.media import has_corpus

        if self.data is None:
            return self._files_benchmark(self.files, ours)
        if has_corpus(trained.config.data, self.data) or is_packed(self.data) or not self.data.exists():
            return self._corpus_benchmark(self.data, trained, ours)
        benchmark = self._files_benchmark((str(self.data),), ours)
        print(f"note: {self.data} holds no {trained.config.data.kind}; whole files are coded instead", file=sys.stderr)
        return benchmark

    @property
    def _num_items(self) -> int:
        """How many items to code."""
        if len(self.items) > 1:
            raise UsageError(f"ardm bench codec takes one number of --items, got {len(self.items)}")
        return self.items[0] if self.items else 100

    def _files_benchmark(
        self, files: Sequence[str], ours: "Sequence[OurCodec]"
    ) -> "tuple[Media, Iterator[CodecTiming]]":
        if self.split is not None:
            raise UsageError(f"--split is for data sets; files are taken whole, got --split {self.split}")
        from ardm.bench.codecs import compare
        from ardm.bench.files import read_files
        from ardm.bench.items import item_of_content, media_of_content

        contents = read_files(files, ours[0].codec, self._num_items, self.seed)
        media = media_of_content(contents[0])
        return media, compare(list(map(item_of_content, contents)), media, ours, others=not self.ours_only)

    def _corpus_benchmark(
        self, path: Path, trained: "TrainedModel", ours: "Sequence[OurCodec]"
    ) -> "tuple[Media, Iterator[CodecTiming]]":
        from ardm.bench.codecs import run_codec_benchmark
        from ardm.bench.items import media_of
        from ardm.media import load_corpus

        corpus = load_corpus(trained.config.data, path)
        rows = run_codec_benchmark(
            corpus,
            trained.model.shape,
            ours,
            num_items=self._num_items,
            split=self.split or "test",
            seed=self.seed,
            others=not self.ours_only,
        )
        return media_of(corpus), rows

    def _configurations(self, presets: Sequence[str] = ()) -> "Iterator[tuple[RunConfig, Runtime]]":
        """These presets or those of the flags, as the flags change them, and where to run them."""
        require_positive(batch_size=self.batch_size, seconds=self.seconds)
        presets = presets or self.presets
        if not presets:
            raise UsageError(f"name the presets: ardm bench {self.what} --presets cifar10 cifar10-paper")
        from ardm.presets import PRESETS
        from ardm.runtime import Runtime

        runtime = Runtime.choose(self.device, compile=not self.no_compile)
        for preset in presets:
            config = PRESETS[preset]()
            if self.batch_size is not None:
                config = replace(config, train=replace(config.train, batch_size=self.batch_size))
            if self.base is not None:
                depth = replace(config.depth, base=self.base, parametrization=self.parametrization)
                config = replace(config, depth=depth)
            yield config, runtime


def even_schedule(model: "ARDM", num_calls: int) -> "Schedule":
    """Calls for as many variables each, one for each stage at least."""
    from ardm.schedule import uniform_schedule

    require_a_call_a_stage(num_calls, model.num_stages)
    num_calls = min(num_calls, model.num_stages * model.num_variables)
    return uniform_schedule(model.num_variables, num_calls, num_stages=model.num_stages)


def plan_line(row: "PlanTiming") -> str:
    """A row of the planner's benchmark."""
    size = f"{row.table_bytes / 2**20:.1f} MiB"
    return f"{row.name:40} {row.num_stages:>6} {row.num_steps:>6} {row.budgets!s:>8} {row.seconds:>9.4f} {size:>9}"


def call_line(row: "CallTiming") -> str:
    """A row of the benchmark of calls."""
    call, work = f"{1000 * row.call_seconds:.1f} ms", row.gigaflops_an_item
    return f"{row.preset:14} {row.num_parameters:>11,} {row.batch_size:>5} {call:>11} {work:>8.2f}"


def exact_call_line(row: "ExactCallTiming") -> str:
    """A row of the benchmark of an exact model's call."""
    times = [f"{1000 * seconds:.1f} ms" for seconds in (row.exact_seconds, row.float_seconds)]
    return f"{row.num_parameters:>11,} {row.batch_size:>5} {times[0]:>11} {times[1]:>11}"


def training_line(row: "TrainTiming") -> str:
    """A row of the benchmark of training."""
    memory = "" if row.peak_bytes is None else f"{row.peak_bytes / 2**30:.1f} GiB"
    return (
        f"{row.preset:14} {row.num_parameters:>11,} {row.batch_size:>5} {1000 * row.step_seconds:>6.1f} ms "
        f"{row.items_per_second:>9.1f} {row.teraflops:>8.2f} {row.share:>6.1%} {row.burst_share:>6.1%} {memory}"
    )


def beside_plain_lines(row: "BesidePlain") -> str:
    """A row, that of the plain loop, and how they compare."""
    ratio = f"{row.preset} in ardm: {row.speedup:.2f} times as many items a second"
    return "\n".join([training_line(row), training_line(row.plain), ratio])


def print_networks(rows: "Sequence[CodecTiming]") -> None:
    """A second table for the rows with a network."""
    from ardm.bench.codec_table import network_header, network_line

    with_network = [(row, row.network) for row in rows if row.network is not None]
    if with_network:
        print(f"\n{network_header()}")
    for row, figures in with_network:
        print(network_line(row.name, figures, row.num_items))
