"""ardm bench: one file per benchmark."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from ardm.cli.bench.call import BenchCall
from ardm.cli.bench.codec import BenchCodec
from ardm.cli.bench.data import BenchData
from ardm.cli.bench.plan import BenchPlan
from ardm.cli.bench.sample import BenchSample
from ardm.cli.bench.train import BenchTrain


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Time parts of ardm, and the alternatives to them."""

    what: (
        Annotated[BenchPlan, tyro.conf.subcommand("plan", prefix_name=False)]
        | Annotated[BenchTrain, tyro.conf.subcommand("train", prefix_name=False)]
        | Annotated[BenchCall, tyro.conf.subcommand("call", prefix_name=False)]
        | Annotated[BenchSample, tyro.conf.subcommand("sample", prefix_name=False)]
        | Annotated[BenchCodec, tyro.conf.subcommand("codec", prefix_name=False)]
        | Annotated[BenchData, tyro.conf.subcommand("data", prefix_name=False)]
    )

    def run(self) -> None:
        self.what.run()
