"""The complete configuration of a run, as it travels with every checkpoint and as the flags of `ardm train`.

Plain dataclasses: nothing here imports PyTorch, so that `ardm train --help` is instant. `build` makes models of them.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

Shape = tuple[int, ...]
Medium = Literal["text", "images", "sound"]
TextKind = Literal["text8", "characters", "bytes"]
ImageKind = Literal["cifar10", "images"]
SoundKind = Literal["sc09", "audio"]
Augmentation = Literal["none", "flips", "flips and turns"]
NamedOrder = Literal["raster", "reverse", "spaced", "halton", "pseudorandom", "strands"]
ParametrizationName = Literal["data", "direct", "logistic", "companded"]
MethodName = Literal["ardm", "d3pm-absorbing", "d3pm-uniform", "d3pm-gaussian", "permuted", "causal"]

ORDER_NAMES: tuple[NamedOrder, ...] = get_args(NamedOrder)
"""All orders that integers alone determine, by their numbers in files; a new one goes to the end.

Strands are as long as there are calls (see `schedule.in_strands`).
"""
MIXTURE_NAMES: tuple[ParametrizationName, ...] = ("logistic", "companded")
"""Parametrizations of many classes in one stage."""
MAX_VARIABLES = 2**20
MAX_STEPS = 10**6
MAX_GAUSSIAN_STEPS = 10_000
"""Steps of noise that a model may have; each of Gaussian noise is a product of matrices when a model is made."""


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Size of a `Transformer`."""

    kind: ClassVar = "transformer"
    takes: ClassVar = ("text",)

    num_layers: int
    width: int
    head_width: int = 64
    """Channels of an attention head; the number of heads is width / head_width."""
    mlp_ratio: int = 4
    """Hidden channels of the feed-forward part, as a multiple of the width."""
    kernel: int = 1
    """Neighbouring variables that the feed-forward part sees at once, by a depthwise convolution; 1: itself alone."""

    def __post_init__(self) -> None:
        for name in ("num_layers", "width", "head_width", "mlp_ratio"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise ValueError(f"the kernel must be odd and positive, got {self.kernel}")
        if self.head_width % 2:
            raise ValueError(f"the head width must be even, got {self.head_width}")
        if self.width % self.head_width:
            raise ValueError(f"the width {self.width} is not a multiple of the head width {self.head_width}")


@dataclass(frozen=True, kw_only=True)
class PaperTransformerConfig:
    """Size of a `PaperTransformer`; the defaults are the paper's."""

    kind: ClassVar = "paper-transformer"
    takes: ClassVar = ("text",)

    num_layers: int = 12
    width: int = 768
    num_heads: int = 12
    mlp_width: int = 3072

    def __post_init__(self) -> None:
        for name in ("num_layers", "width", "num_heads", "mlp_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.width % self.num_heads:
            raise ValueError(f"the width {self.width} is not a multiple of {self.num_heads} heads")


@dataclass(frozen=True, kw_only=True)
class UNetConfig:
    """Size of a `UNet`. Resolutions go from the full one down, each with a quarter of the pixels or samples before."""

    kind: ClassVar = "unet"
    takes: ClassVar = ("images", "sound")

    widths: tuple[int, ...]
    """Channels at each resolution."""
    depths: tuple[int, ...]
    """Blocks at each resolution: on the way down and again on the way up; the lowest has them once."""
    kernel: int = 5
    """Size of the depthwise convolutions: height and width for images, length for sound."""
    mlp_ratio: int = 4
    """Hidden channels of a block's pointwise part, as a multiple of the width."""

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.depths) or not self.widths:
            raise ValueError(f"widths and depths must list the same resolutions, got {self.widths} and {self.depths}")
        if min(*self.widths, *self.depths, self.mlp_ratio) < 1:
            raise ValueError(f"widths, depths and mlp_ratio must be at least 1, got {self}")
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise ValueError(f"the kernel must be odd and positive, got {self.kernel}")


@dataclass(frozen=True, kw_only=True)
class PaperUNetConfig:
    """Size of a `PaperUNet`; the defaults are the paper's."""

    kind: ClassVar = "paper-unet"
    takes: ClassVar = ("images",)

    num_blocks: int = 32
    """Residual blocks before the middle; after it there is one more."""
    width: int = 256
    """Features of a pixel, three quarters of them from a convolution and one from an embedding of its values."""
    num_groups: int = 32
    """Groups of features that share a mean and a variance in a norm."""

    def __post_init__(self) -> None:
        for name in ("num_blocks", "width", "num_groups"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.width % 4:
            raise ValueError(f"the width must be a multiple of 4, got {self.width}")
        if self.width % self.num_groups:
            raise ValueError(f"the width {self.width} is not a multiple of {self.num_groups} groups")


@dataclass(frozen=True, kw_only=True)
class PaperWaveNetConfig:
    """Size of a `PaperWaveNet`; the defaults are the paper's."""

    kind: ClassVar = "paper-wavenet"
    takes: ClassVar = ("sound",)

    num_blocks: int = 36
    """Residual blocks."""
    width: int = 256
    """Features of a sample, three quarters of them from a convolution and one from an embedding of its value."""
    dilation_cycle: int = 12
    """Blocks after which the dilation, which doubles from block to block, is 1 again. The text says 11 with a maximum
    of 2048; the authors' code has 12, which gives that maximum."""

    def __post_init__(self) -> None:
        for name in ("num_blocks", "width", "dilation_cycle"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.width % 4:
            raise ValueError(f"the width must be a multiple of 4, got {self.width}")

    @property
    def dilations(self) -> list[int]:
        """The dilation of each block."""
        return [2 ** (block % self.dilation_cycle) for block in range(self.num_blocks)]


NetworkConfig = TransformerConfig | PaperTransformerConfig | UNetConfig | PaperUNetConfig | PaperWaveNetConfig
NETWORK_CLASSES: dict[str, type[NetworkConfig]] = {cls.kind: cls for cls in get_args(NetworkConfig)}


@dataclass(frozen=True, kw_only=True)
class SequenceData:
    """Items in a row."""

    num_variables: int

    def __post_init__(self) -> None:
        if not 1 <= self.num_variables <= MAX_VARIABLES:
            raise ValueError(f"an item has 1 to {MAX_VARIABLES} variables, got {self.num_variables}")

    @property
    def shape(self) -> Shape:
        """The shape of an item."""
        return (self.num_variables,)


@dataclass(frozen=True, kw_only=True)
class TextData(SequenceData):
    """What a text model is trained on."""

    medium: ClassVar = "text"
    kind: TextKind
    num_variables: int = 250
    """Characters of an item; the paper's 250 divide text8's splits evenly."""


@dataclass(frozen=True, kw_only=True)
class SoundData(SequenceData):
    """What a model of 16-bit sound is trained on."""

    medium: ClassVar = "sound"
    kind: SoundKind
    num_variables: int = 16_000
    """Samples of an item; one second of SC09."""
    augmentation: Augmentation = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.augmentation == "flips and turns":
            raise ValueError("sound is augmented by flips (upside down) or not at all; only images can be turned")


@dataclass(frozen=True, kw_only=True)
class ImageData:
    """What an image model is trained on."""

    medium: ClassVar = "images"
    kind: ImageKind
    height: int = 32
    width: int = 32
    channels: Literal[1, 3] = 3
    augmentation: Augmentation = "none"
    holds_out: bool = True
    """CIFAR-10: whether the last 1000 training images are for validation alone, or trained on as well."""

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 1 or self.num_variables > MAX_VARIABLES:
            raise ValueError(f"an item has 1 to {MAX_VARIABLES} variables, got {self.height} x {self.width} pixels")
        if self.channels not in (1, 3):
            raise ValueError(f"images have 1 channel (grey) or 3 (colour), got {self.channels}")
        if self.kind == "cifar10" and self.channels != 3:
            raise ValueError("CIFAR-10 is in colour: it has 3 channels")
        if self.kind != "cifar10" and not self.holds_out:
            raise ValueError("only CIFAR-10 can be trained on whole (--train-on-all)")

    @property
    def shape(self) -> Shape:
        """The shape of an item."""
        return (self.height, self.width, self.channels)

    @property
    def num_variables(self) -> int:
        """D: sub-pixels of an item."""
        return math.prod(self.shape)


DataConfig = TextData | ImageData | SoundData
DATA_CLASSES: tuple[tuple[type[DataConfig], tuple[str, ...]], ...] = (
    (TextData, get_args(TextKind)),
    (ImageData, get_args(ImageKind)),
    (SoundData, get_args(SoundKind)),
)
"""Configurations of data with the kinds that they have."""


@dataclass(frozen=True, kw_only=True)
class DepthConfig:
    """How variables decay: to a mask class at once (base None), or digit by digit in a base."""

    base: int | None = None
    parametrization: ParametrizationName = "data"
    """How outputs become probabilities; direct needs a base, logistic and companded must have none."""
    absorbing_value: int | None = None
    """The value of hidden variables without a base; None: a class of its own."""
    num_components: int = 10
    """Logistics of a mixture."""
    min_log_scale: float = -14.0
    """Least logarithm of a logistic's scale; the authors' -7 costs bits (see `LogisticMixtureParametrization`)."""

    def __post_init__(self) -> None:
        if self.base is None and self.parametrization == "direct":
            raise ValueError("the direct parametrization needs a base")
        if self.base is not None and self.parametrization in MIXTURE_NAMES:
            raise ValueError("a mixture of logistics has one stage: leave the base out, or use direct")
        if self.num_components < 1:
            raise ValueError(f"a mixture needs at least one component, got {self.num_components}")
        if not -50 <= self.min_log_scale <= 0:
            raise ValueError(f"the least log-scale must lie in -50..0, got {self.min_log_scale}")
        if self.base is not None and self.base < 2:
            raise ValueError(f"the base must be at least 2, got {self.base}")


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """What is trained: an ARDM, or a baseline."""

    name: MethodName = "ardm"
    num_steps: int = 1000
    """T, steps of noise of a D3PM; the others have no use for it."""

    def __post_init__(self) -> None:
        if self.name not in get_args(MethodName):
            raise ValueError(f"the method must be one of {', '.join(get_args(MethodName))}, got {self.name}")
        most = MAX_GAUSSIAN_STEPS if self.name == "d3pm-gaussian" else MAX_STEPS
        if type(self.num_steps) is not int or not 1 <= self.num_steps <= most:
            raise ValueError(f"a {self.name} model has 1 to {most} steps of noise, got {self.num_steps}")

    @property
    def is_ardm(self) -> bool:
        """Whether it is no baseline."""
        return self.name == "ardm"

    @property
    def is_diffusion(self) -> bool:
        """Whether it is a D3PM."""
        return self.name.startswith("d3pm-")

    @property
    def is_absorbing(self) -> bool:
        """Whether it is a D3PM with the absorbing process, which needs to know no noise level."""
        return self.name == "d3pm-absorbing"

    @property
    def has_cross_entropy(self) -> bool:
        """Whether there is a cross-entropy beside the bound; what is autoregressive has no other loss."""
        return self.is_ardm or self.is_diffusion

    @property
    def is_permuted(self) -> bool:
        """Whether it is autoregressive in random orders."""
        return self.name == "permuted"

    def takes(self, network: NetworkConfig) -> bool:
        """Whether the network has a form for this method."""
        if self.is_permuted:
            return isinstance(network, TransformerConfig | PaperTransformerConfig)
        if self.name == "causal":
            return isinstance(network, TransformerConfig | PaperTransformerConfig | PaperWaveNetConfig)
        return True


ARDM_METHOD = MethodConfig()


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The optimiser and the loop."""

    steps: int
    batch_size: int
    num_shards: int = 1
    """Parts of a batch that are taken one after the other (gradient accumulation), each with draws of its own."""
    learning_rate: float
    """Peak rate of AdamW."""
    muon_rate: float | None = None
    """Peak rate of Muon for the matrices inside blocks; None trains everything with AdamW."""
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    warmup_steps: int = 0
    """Steps of linear warm-up."""
    decay_fraction: float = 0.0
    """Last part of the steps over which the rate falls linearly to zero."""
    clip_norm: float = 1.0
    """Gradients with a larger norm are scaled down to it."""
    ema_decay: float = 0.999
    """Weights for evaluation are an exponential moving average with this decay."""
    cross_entropy_weight: float = 0.0
    """Weight of the authors' CE term beside the bound, both in bits (see `objective.StepLoss`)."""
    order: str | None = None
    """An order by its name, to code in: the last part of the steps trains for it instead of for random orders."""
    order_fraction: float = 0.5
    """That part, if there is an order."""
    order_share: float = 1.0
    """The share of items that take the order then; the others keep random ones."""
    profile_momentum: float = 0.95
    """Momentum of the moving average of each loss component."""
    eval_items: int = 512
    """Held-out items of an evaluation."""
    eval_every: int = 1000
    checkpoint_every: int = 1000
    log_every: int = 50

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "num_shards", "eval_items", "eval_every", "checkpoint_every", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.batch_size % self.num_shards:
            whose = "(as many as --shards, or as processes)"
            raise ValueError(f"a batch of {self.batch_size} items has no {self.num_shards} equal shards {whose}")
        for name in ("learning_rate", "muon_rate", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value}")
        for name in ("warmup_steps", "weight_decay", "cross_entropy_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.order is not None and self.order not in ORDER_NAMES:
            raise ValueError(f"the order must be one of {', '.join(ORDER_NAMES)}, got {self.order}")
        for name in ("ema_decay", "profile_momentum", "decay_fraction", "order_fraction", "order_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")

    @property
    def shard_size(self) -> int:
        """Items that the network is given at once."""
        return self.batch_size // self.num_shards

    def rate_factor(self, step: int) -> float:
        """The rate of a step (from 0) relative to its peak: warm-up, constant, linear decay."""
        warmup = (step + 1) / (self.warmup_steps + 1)
        decay_steps = self.decay_fraction * self.steps
        decay = (self.steps - step) / decay_steps if decay_steps else 1.0
        return max(0.0, min(1.0, warmup, decay))

    def has_order(self, step: int) -> bool:
        """Whether a step (from 0) trains for the order, instead of for random ones."""
        return self.order is not None and step >= (1 - self.order_fraction) * self.steps


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run, apart from the data's content."""

    preset: str
    data: DataConfig
    network: NetworkConfig
    train: TrainConfig
    depth: DepthConfig = DepthConfig()
    method: MethodConfig = ARDM_METHOD
    seed: int = 0
    initial_data: tuple[str, ...] = ()
    """Fingerprints of the data that the weights at the start were trained on."""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**40:
            raise ValueError(f"the seed must lie in 0..2^40, got {self.seed}")
        if self.data.medium not in self.network.takes:
            raise ValueError(f"a {self.network.kind} network does not take data of kind {self.data.kind}")
        if self.data.medium == "text" and self.depth.parametrization in MIXTURE_NAMES:
            raise ValueError(
                f"the {self.depth.parametrization} parametrization is for images and sound, whose neighbouring classes "
                "are alike; leave it out for text"
            )

        if not self.method.is_ardm:
            self._check_baseline()

    def _check_baseline(self) -> None:
        name = self.method.name
        if self.depth.base is not None:
            raise ValueError(f"the method {name} has no stages: leave the base out")
        if self.train.order is not None:
            raise ValueError(f"the method {name} is not trained for an order: leave the order out")
        if self.method.is_diffusion and self.depth.parametrization != "data":
            raise ValueError(
                f"the method {name} needs a logit for each class: text and images have one with --parametrization data"
            )
        if name == "d3pm-gaussian" and self.data.medium == "text":
            raise ValueError("Gaussian noise needs classes in order, which characters are not; use d3pm-uniform")
        if not self.method.takes(self.network):
            kinds = "text, and causal for sound with the presets sc09-wavenet and sc09-paper"
            raise ValueError(f"the method {name} has no form of a {self.network.kind} network: it is for {kinds}")
        if self.method.is_permuted and getattr(self.network, "kernel", 1) > 1:
            raise ValueError("the method permuted needs --kernel 1: neighbours in an order are far apart")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = dataclasses.asdict(self)
        values["network"]["kind"] = self.network.kind
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "RunConfig":
        """The configuration that `to_dict` wrote."""
        network = _with_tuples(values["network"])
        data_class = next(cls for cls, kinds in DATA_CLASSES if values["data"]["kind"] in kinds)
        return cls(
            preset=values["preset"],
            data=data_class(**values["data"]),
            network=NETWORK_CLASSES[network.pop("kind")](**network),
            train=TrainConfig(**_with_tuples(values["train"])),
            depth=DepthConfig(**values["depth"]),
            method=MethodConfig(**values.get("method", {})),
            seed=values["seed"],
            initial_data=tuple(values.get("initial_data", ())),
        )


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Values read from JSON, which has lists only, with tuples again."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
