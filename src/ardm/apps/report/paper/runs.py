"""The runs and their measurements; how many items and calls each one takes is set in the first lines."""

from collections.abc import Iterable

from ardm.apps.report.paper.entries import ByScale, Measurement, Run

OUR_CIFAR10 = ByScale(
    "cifar10 --train-on-all --steps 3940",
    "cifar10 --train-on-all --steps 585000",
    "cifar10-small --train-on-all --steps 300",
)
"""Our network at all scales, as the paper's has no exact form; at full scale it sees as many images as the paper's."""
SC09 = ByScale("sc09 --steps 1900", "sc09-paper --shards 4", "sc09-small --steps 150")
WAVENET = ByScale(
    "sc09-wavenet --steps 1590",
    "sc09-paper --width 128 --batch-size 64 --weight-decay 0.01",
    "sc09-wavenet --num-blocks 8 --width 32 --batch-size 1 --steps 150",
)

TEXTS = ByScale("--items 4000 --batch-size 512", "--items None --batch-size 512", "--items 200")
IMAGES = ByScale("--items 10000 --batch-size 500", cpu="--items 100")
GAUSSIAN_IMAGES = ByScale("--items 10000 --batch-size 100", cpu="--items 50")
FEW_IMAGES = ByScale("--items 100 --batch-size 500", cpu="--items 4")
CLIPS = ByScale("--items 1000 --batch-size 100", "--items None --batch-size 100", "--items 20 --batch-size 8")
FEW_CLIPS = ByScale("--items 12 --batch-size 100", cpu="--items 1 --batch-size 8")
CODED_IMAGES = ByScale("--items 64", cpu="--items 4")
OUR_CODED_IMAGES = ByScale("--items 32", cpu="--items 4")
"""The items that are scored: few where each takes hundreds of calls."""

TEXT_BUDGETS = (50, 20, 10)
IMAGE_BUDGETS = (500, 100, 50)
SOUND_BUDGETS = (1000, 500, 100, 50)
"""Calls per item and, for upscale models, per stage."""
DIFFUSION_STEPS = (20, 256, 1000, 4000, 16000)


def text8(steps: int, paper: str = "text8-paper") -> ByScale:
    """The preset of text runs, with the steps that take 140 seconds on one H200, compilation aside.

    On a CPU the network has no convolutions, which the permuted Transformer could not use.
    """
    return ByScale(f"text8 --steps {steps}", paper, "text8-small --kernel 1 --steps 500")


def cifar10(steps: int, cpu_steps: int = 300) -> ByScale:
    """The preset of image runs, with the steps that take 160 seconds."""
    small = f"cifar10-small --train-on-all --steps {cpu_steps}"
    return ByScale(f"cifar10 --train-on-all --steps {steps}", "cifar10-paper", small)


def score(name: str, items: ByScale, flags: str = "", *, has_profile: bool = False) -> Measurement:
    """A measurement with `ardm eval`."""
    return Measurement(name=name, command="eval {run} {data}", items=items, flags=flags, has_profile=has_profile)


def calls(items: ByScale, budgets: Iterable[int], num_stages: int = 1) -> list[Measurement]:
    """Scores with planned schedules, by the number of calls per stage."""
    return [score(f"calls-{budget}", items, f"--calls {num_stages * budget}") for budget in budgets]


def absorbing(items: ByScale, steps: Iterable[int], passes: int) -> list[Measurement]:
    """Scores of the weights as an absorbing D3PM, by its number of steps."""
    return [score(f"d3pm-{T}", items, f"--diffusion-steps {T} --passes {passes}") for T in steps]


def chain(num_calls: int) -> Measurement:
    """Two samples and their intermediate states."""
    return Measurement(name="chain", command="sample {run} -n 2", flags=f"--calls {num_calls} --chain")


TEXT_RUNS = (
    Run(
        name="text8-oa",
        start=text8(2860),
        measurements=(
            score("bits", TEXTS, "--passes 16", has_profile=True),
            *calls(TEXTS, TEXT_BUDGETS),
            *absorbing(TEXTS, DIFFUSION_STEPS, passes=16),
            chain(250),
        ),
    ),
    Run(
        name="text8-permuted",
        start=text8(2880),
        flags="--method permuted",
        measurements=(score("bits", TEXTS, "--passes 16"),),
    ),
    Run(
        name="text8-causal",
        start=text8(2890, "text8-paper --batch-size 128"),  # the paper only says: lower than 512
        flags="--method causal",
        measurements=(score("bits", TEXTS),),
    ),
    Run(
        name="text8-d3pm-absorbing",
        start=text8(2860),
        flags="--method d3pm-absorbing --diffusion-steps 1000",
        measurements=(*absorbing(TEXTS, (1000, 256, 20), passes=16),),
    ),
    Run(
        name="text8-d3pm-uniform",
        start=text8(2770),
        flags="--method d3pm-uniform --diffusion-steps 1000",
        measurements=(score("bits", TEXTS, "--passes 16"),),
    ),
)

IMAGE_RUNS = (
    Run(
        name="cifar10-oa",
        start=cifar10(3940),
        measurements=(
            score("bits", IMAGES, "--passes 4", has_profile=True),
            score("few", FEW_IMAGES, "--passes 100"),
            *calls(FEW_IMAGES, IMAGE_BUDGETS),
            *absorbing(IMAGES, (1000,), passes=4),
            chain(200),
        ),
    ),
    Run(
        name="cifar10-upscale4",
        start=cifar10(4010),
        flags="--base 4",
        measurements=(
            score("bits", IMAGES, "--passes 4", has_profile=True),
            score("few", FEW_IMAGES, "--passes 100"),
            *calls(FEW_IMAGES, IMAGE_BUDGETS, num_stages=4),
            chain(400),
        ),
    ),
    *(
        Run(
            name=f"cifar10-upscale{base}",
            start=cifar10(steps),
            flags=f"--base {base}",
            measurements=(score("bits", IMAGES, "--passes 4"),),
        )
        for base, steps in ((2, 3530), (16, 3780))
    ),
    Run(
        name="cifar10-d3pm-gaussian",
        start=cifar10(950, cpu_steps=100),
        flags="--method d3pm-gaussian --diffusion-steps 1000",
        measurements=(score("bits", GAUSSIAN_IMAGES),),
    ),
    Run(
        name="cifar10-oa-exact",
        start=OUR_CIFAR10,
        measurements=(
            Measurement(
                name="codec",
                prepare="export {run} --data {data} -o {run}/exact.model --order halton --calls 500 --valid-items 2",
                command="bench codec --model {run}/exact.model --data {data}",
                items=OUR_CODED_IMAGES,
                flags="--calls 500 100 --ours-only",
            ),
        ),
    ),
    Run(
        name="box-images",
        start=None,
        measurements=(
            Measurement(
                name="codec",
                command="bench codec --model images --data {data}",
                items=CODED_IMAGES,
                flags="--calls 500 100 40",
            ),
        ),
    ),
)

SOUND_BITS = score("bits", CLIPS, "--passes 8")
SOUND_RUNS = (
    *(
        Run(name=f"sc09-{name}", start=SC09, flags=flags, measurements=(SOUND_BITS,))
        for name, flags in (
            ("oa", "--parametrization companded"),
            ("oa-linear", "--parametrization logistic"),
            ("oa-clipped", "--parametrization logistic --min-log-scale -7"),
        )
    ),
    Run(
        name="sc09-upscale4",
        start=SC09,
        flags="--base 4",
        measurements=(
            SOUND_BITS,
            score("few", FEW_CLIPS, "--passes 2000"),
            *calls(FEW_CLIPS, SOUND_BUDGETS, num_stages=8),
        ),
    ),
    *(
        Run(name=f"sc09-upscale{base}", start=SC09, flags=f"--base {base}", measurements=(SOUND_BITS,))
        for base in (2, 16, 256)
    ),
    Run(name="sc09-wavenet", start=WAVENET, flags="--method causal", measurements=(score("bits", CLIPS),)),
)

RUNS: dict[str, Run] = {run.name: run for run in (*TEXT_RUNS, *IMAGE_RUNS, *SOUND_RUNS)}


def find(key: str) -> tuple[Run, Measurement]:
    """The run and the measurement that RUN/MEASUREMENT names."""
    name, _, measured = key.partition("/")
    return RUNS[name], next(one for one in RUNS[name].measurements if one.name == measured)
