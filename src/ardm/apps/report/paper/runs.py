"""The runs and what is measured of each. The sizes of everything are in the first lines."""

from ardm.apps.report.paper.entries import ByScale, Measurement, Run, same


def text8(steps: int, paper: str = "") -> ByScale:
    """What text runs share; the steps that 140 seconds of one H200 have, compilation aside, differ a little."""
    return ByScale(f"text8 --steps {steps}", f"text8-paper {paper}".strip())


def cifar10(steps: int) -> ByScale:
    """What image runs share; the steps are those that 160 seconds have."""
    return ByScale(f"cifar10 --train-on-all --steps {steps}", "cifar10-paper")


OUR_CIFAR10 = ByScale(cifar10(3940).minutes, "cifar10 --train-on-all --steps 585000")
"""Our network at both scales, as the paper's has no exact form; at full scale it sees as many images as the paper's."""
SC09 = ByScale("sc09 --steps 1900", "sc09-paper --shards 4")
WAVENET = ByScale("sc09-wavenet --steps 1590", "sc09-paper --width 128 --batch-size 64 --weight-decay 0.01")

TEXTS = ByScale("--items 4000 --batch-size 512", "--items None --batch-size 512")
IMAGES = same("--items 10000 --batch-size 500")
GAUSSIAN_IMAGES = same("--items 10000 --batch-size 100")
FEW_IMAGES = same("--items 100 --batch-size 500")
CLIPS = ByScale("--items 1000 --batch-size 100", "--items None --batch-size 100")
FEW_CLIPS = same("--items 12 --batch-size 100")
"""The items that are scored; of few where every one takes hundreds of calls."""

TEXT_BUDGETS = (50, 20, 10)
IMAGE_BUDGETS = (500, 100, 50)
SOUND_BUDGETS = (1000, 500, 100, 50)
"""Calls for an item, and of upscale models for each stage."""
DIFFUSION_STEPS = (20, 256, 1000, 4000, 16000)

EVALUATE = "eval {run} {data}"


def bits(items: ByScale, passes: int = 1, *, has_profile: bool = False) -> Measurement:
    """A run's own number: the bound, or the exact bits of a model with one order."""
    flags = _with(items, f"--passes {passes}" if passes > 1 else "")
    return Measurement(name="bits", command=EVALUATE, flags=flags, has_profile=has_profile)


def few(items: ByScale, passes: int) -> Measurement:
    """The bound of the few items that are scored with several numbers of calls."""
    return Measurement(name="few", command=EVALUATE, flags=_with(items, f"--passes {passes}"))


def calls(items: ByScale, budgets: tuple[int, ...], num_stages: int = 1) -> tuple[Measurement, ...]:
    """Planned schedules with so many calls for each stage."""
    return tuple(
        Measurement(name=f"calls-{budget}", command=EVALUATE, flags=_with(items, f"--calls {num_stages * budget}"))
        for budget in budgets
    )


def absorbing(items: ByScale, steps: tuple[int, ...], passes: int) -> tuple[Measurement, ...]:
    """The weights scored as an absorbing D3PM with so many steps."""
    return tuple(
        Measurement(name=f"d3pm-{T}", command=EVALUATE, flags=_with(items, f"--diffusion-steps {T} --passes {passes}"))
        for T in steps
    )


def chain(num_calls: int) -> Measurement:
    """Two samples as they come about."""
    return Measurement(name="chain", command="sample {run} -n 2", flags=same(f"--calls {num_calls} --chain"))


def _with(flags: ByScale, more: str) -> ByScale:
    return ByScale(f"{flags.minutes} {more}".strip(), f"{flags.paper} {more}".strip())


TEXT_RUNS = (
    Run(
        name="text8-oa",
        start=text8(2860),
        measurements=(
            bits(TEXTS, passes=16, has_profile=True),
            *calls(TEXTS, TEXT_BUDGETS),
            *absorbing(TEXTS, DIFFUSION_STEPS, passes=16),
            chain(250),
        ),
    ),
    Run(name="text8-permuted", start=text8(2880), flags="--method permuted", measurements=(bits(TEXTS, passes=16),)),
    Run(
        name="text8-causal",
        start=text8(2890, paper="--batch-size 128"),  # the paper says lower than 512, and not how low
        flags="--method causal",
        measurements=(bits(TEXTS),),
    ),
    Run(
        name="text8-d3pm-absorbing",
        start=text8(2860),
        flags="--method d3pm-absorbing --diffusion-steps 1000",
        measurements=absorbing(TEXTS, (1000, 256, 20), passes=16),
    ),
    Run(
        name="text8-d3pm-uniform",
        start=text8(2770),
        flags="--method d3pm-uniform --diffusion-steps 1000",
        measurements=(bits(TEXTS, passes=16),),
    ),
)

IMAGE_RUNS = (
    Run(
        name="cifar10-oa",
        start=cifar10(3940),
        measurements=(
            bits(IMAGES, passes=4, has_profile=True),
            few(FEW_IMAGES, passes=100),
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
            bits(IMAGES, passes=4, has_profile=True),
            few(FEW_IMAGES, passes=100),
            *calls(FEW_IMAGES, IMAGE_BUDGETS, num_stages=4),
            chain(400),
        ),
    ),
    *(
        Run(name=f"cifar10-upscale{b}", start=cifar10(n), flags=f"--base {b}", measurements=(bits(IMAGES, passes=4),))
        for b, n in ((2, 3530), (16, 3780))
    ),
    Run(
        name="cifar10-d3pm-gaussian",
        start=cifar10(950),
        flags="--method d3pm-gaussian --diffusion-steps 1000",
        measurements=(bits(GAUSSIAN_IMAGES),),
    ),
    Run(
        name="cifar10-oa-exact",
        start=OUR_CIFAR10,
        measurements=(
            Measurement(
                name="codec",
                prepare="export {run} --data {data} -o {run}/exact.model --order halton --calls 500 --valid-items 2",
                command="bench codec --model {run}/exact.model --data {data}",
                flags=same("--items 32 --calls 500 100 --ours-only"),
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
                flags=same("--items 64 --calls 500 100 40"),
            ),
        ),
    ),
)

SOUND_RUNS = (
    Run(
        name="sc09-oa",
        start=SC09,
        flags="--parametrization companded",
        measurements=(bits(CLIPS, passes=8),),
    ),
    Run(
        name="sc09-oa-linear",
        start=SC09,
        flags="--parametrization logistic",
        measurements=(bits(CLIPS, passes=8),),
    ),
    Run(
        name="sc09-oa-clipped",
        start=SC09,
        flags="--parametrization logistic --min-log-scale -7",
        measurements=(bits(CLIPS, passes=8),),
    ),
    Run(
        name="sc09-upscale4",
        start=SC09,
        flags="--base 4",
        measurements=(
            bits(CLIPS, passes=8),
            few(FEW_CLIPS, passes=2000),
            *calls(FEW_CLIPS, SOUND_BUDGETS, num_stages=8),
        ),
    ),
    *(
        Run(name=f"sc09-upscale{b}", start=SC09, flags=f"--base {b}", measurements=(bits(CLIPS, passes=8),))
        for b in (2, 16, 256)
    ),
    Run(name="sc09-wavenet", start=WAVENET, flags="--method causal", measurements=(bits(CLIPS),)),
)

RUNS: dict[str, Run] = {run.name: run for run in (*TEXT_RUNS, *IMAGE_RUNS, *SOUND_RUNS)}


def find(of: str) -> tuple[Run, Measurement]:
    """The run and the measurement that RUN/MEASUREMENT names."""
    name, _, measured = of.partition("/")
    return RUNS[name], next(one for one in RUNS[name].measurements if one.name == measured)
