"""The complete configuration of a run: it travels with every checkpoint, and its fields are the flags of `ardm train`.

A field is a flag of the same name unless `arg` gives another or it is suppressed; its docstring is the flag's help.
Nothing here imports PyTorch, so that `ardm train --help` is instant. `build` makes models from configurations.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

from tyro.conf import AvoidSubcommands, Suppress, arg

from ardm.names import ORDER_NAMES, Shape

Medium = Literal["text", "images", "sound"]
TextKind = Literal["text8", "characters", "bytes"]
ImageKind = Literal["cifar10", "images"]
SoundKind = Literal["sc09", "audio"]
Augmentation = Literal["none", "flips", "flips and turns"]
ParametrizationName = Literal["data", "direct", "logistic", "companded"]
MethodName = Literal["ardm", "coding", "d3pm-absorbing", "d3pm-uniform", "d3pm-gaussian", "permuted", "causal"]

MIXTURE_NAMES: tuple[ParametrizationName, ...] = ("logistic", "companded")
"""Parametrizations that are mixtures of logistics, for many classes in one stage."""
CODING_CALLS = 50
"""Calls in which training evaluates a coding model, beside left to right."""
MAX_VARIABLES = 2**20
MAX_STEPS = 10**6
MAX_GAUSSIAN_STEPS = 10_000
"""Limit for Gaussian noise, where building a model takes a matrix product per step."""


def _require_at_least_1(config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(config, name)}")


def _require_odd_kernel(kernel: int) -> None:
    if kernel < 1 or kernel % 2 == 0:
        raise ValueError(f"the kernel must be odd and positive, got {kernel}")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Size of a `Transformer`."""

    kind: ClassVar = "transformer"
    takes: ClassVar = ("text",)

    num_layers: Annotated[int, arg(name="layers")]
    """Blocks of the network."""
    width: int
    """Channels of the network."""
    head_width: int = 64
    """Channels of an attention head; the number of heads is width / head-width."""
    mlp_ratio: int = 4
    """Hidden channels of a block's pointwise layers, as a multiple of the width."""
    kernel: int = 1
    """Size of the depthwise convolutions; for text, 1 means none."""

    def __post_init__(self) -> None:
        _require_at_least_1(self, "num_layers", "width", "head_width", "mlp_ratio")
        _require_odd_kernel(self.kernel)
        if self.head_width % 2:
            raise ValueError(f"the head width must be even, got {self.head_width}")
        if self.width % self.head_width:
            raise ValueError(f"the width {self.width} is not a multiple of the head width {self.head_width}")


@dataclass(frozen=True, kw_only=True)
class PaperTransformerConfig:
    """Size of a `PaperTransformer`; the defaults are the paper's."""

    kind: ClassVar = "paper-transformer"
    takes: ClassVar = ("text",)

    num_layers: Annotated[int, arg(name="layers")] = 12
    """Blocks of the network."""
    width: int = 768
    """Channels of the network."""
    num_heads: int = 12
    """Attention heads."""
    mlp_width: int = 3072
    """Hidden channels of a block's feed-forward layers."""

    def __post_init__(self) -> None:
        _require_at_least_1(self, "num_layers", "width", "num_heads", "mlp_width")
        if self.width % self.num_heads:
            raise ValueError(f"the width {self.width} is not a multiple of {self.num_heads} heads")


@dataclass(frozen=True, kw_only=True)
class UNetConfig:
    """Size of a `UNet`. Each resolution has a quarter of the pixels or samples of the one above it."""

    kind: ClassVar = "unet"
    takes: ClassVar = ("images", "sound")

    widths: tuple[int, ...]
    """Channels of the network at each resolution, the full one first."""
    depths: tuple[int, ...]
    """Blocks at each resolution, on the way down and again on the way up; the lowest has them once."""
    kernel: int = 5
    """Size of the depthwise convolutions: height and width for images, length for sound."""
    mlp_ratio: int = 4
    """Hidden channels of a block's pointwise layers, as a multiple of the width."""

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.depths) or not self.widths:
            raise ValueError(f"widths and depths must list the same resolutions, got {self.widths} and {self.depths}")
        if min(*self.widths, *self.depths, self.mlp_ratio) < 1:
            raise ValueError(f"widths, depths and mlp_ratio must be at least 1, got {self}")
        _require_odd_kernel(self.kernel)


@dataclass(frozen=True, kw_only=True)
class PaperUNetConfig:
    """Size of a `PaperUNet`; the defaults are the paper's."""

    kind: ClassVar = "paper-unet"
    takes: ClassVar = ("images",)

    num_blocks: int = 32
    """Residual blocks before the middle of the network; after it there is one more."""
    width: int = 256
    """Channels of the network: three quarters from a convolution of the image, one from an embedding of its values."""
    num_groups: int = 32
    """Groups of channels that share a mean and a variance in a norm."""

    def __post_init__(self) -> None:
        _require_at_least_1(self, "num_blocks", "width", "num_groups")
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
    """Residual blocks of the network."""
    width: int = 256
    """Channels of the network: three quarters from a convolution of the sound, one from an embedding of its values."""
    dilation_cycle: int = 12
    """Number of blocks after which the dilation, which doubles from block to block, starts again at 1."""
    # The paper says 11 with a maximum of 2048; the authors' code has 12, which gives that maximum.

    def __post_init__(self) -> None:
        _require_at_least_1(self, "num_blocks", "width", "dilation_cycle")
        if self.width % 4:
            raise ValueError(f"the width must be a multiple of 4, got {self.width}")

    @property
    def dilations(self) -> list[int]:
        """The dilation of each block."""
        return [2 ** (block % self.dilation_cycle) for block in range(self.num_blocks)]


NetworkConfig = TransformerConfig | PaperTransformerConfig | UNetConfig | PaperUNetConfig | PaperWaveNetConfig
NETWORK_CLASSES: dict[str, type[NetworkConfig]] = {cls.kind: cls for cls in get_args(NetworkConfig)}
CAUSAL_NETWORKS = {
    "coding": TransformerConfig,
    "permuted": TransformerConfig | PaperTransformerConfig,
    "causal": TransformerConfig | PaperTransformerConfig | PaperWaveNetConfig,
}
"""Networks with a causal form, for each method that needs one."""
ItemLength = Annotated[int, arg(name="item-length")]


@dataclass(frozen=True, kw_only=True)
class SequenceData:
    """Items that are sequences."""

    num_variables: ItemLength
    """Characters, bytes or samples of an item."""

    def __post_init__(self) -> None:
        if not 1 <= self.num_variables <= MAX_VARIABLES:
            raise ValueError(f"an item has 1 to {MAX_VARIABLES} variables, got {self.num_variables}")

    @property
    def shape(self) -> Shape:
        """The shape of an item."""
        return (self.num_variables,)


@dataclass(frozen=True, kw_only=True)
class TextData(SequenceData):
    """Training data of a text model."""

    medium: ClassVar[Medium] = "text"
    kind: Suppress[TextKind]
    num_variables: ItemLength = 250  # the paper's; it divides text8's splits evenly
    """Characters or bytes of an item."""


@dataclass(frozen=True, kw_only=True)
class SoundData(SequenceData):
    """Training data of a model of 16-bit sound."""

    medium: ClassVar[Medium] = "sound"
    kind: Suppress[SoundKind]
    num_variables: ItemLength = 16_000
    """Samples of an item."""
    augmentation: Augmentation = "none"
    """Random flips of training sounds, upside down."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.augmentation == "flips and turns":
            raise ValueError("sound is augmented by flips (upside down) or not at all; only images can be turned")


@dataclass(frozen=True, kw_only=True)
class ImageData:
    """Training data of an image model."""

    medium: ClassVar[Medium] = "images"
    kind: Suppress[ImageKind]
    height: Suppress[int] = 32
    width: Suppress[int] = 32
    channels: Literal[1, 3] = 3
    """1 for grey images, 3 for colour."""
    augmentation: Augmentation = "none"
    """Random flips and quarter turns of training images; sounds are only flipped, upside down."""
    holds_out: Suppress[bool] = True
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
        """Sub-pixels of an item (D)."""
        return math.prod(self.shape)


DataConfig = TextData | ImageData | SoundData
_DATA_KINDS = ((TextData, TextKind), (ImageData, ImageKind), (SoundData, SoundKind))
DATA_CLASSES: dict[str, type[DataConfig]] = {kind: cls for cls, kinds in _DATA_KINDS for kind in get_args(kinds)}


@dataclass(frozen=True, kw_only=True)
class DepthConfig:
    """How variables are hidden: at once (base None), or digit by digit in a base."""

    base: int | None = None
    """Train an upscale model, which generates digits in this base."""
    parametrization: ParametrizationName = "data"
    """How outputs become probabilities. With --base: direct (better) or data (the paper's for images). Without: data
    or, for sound and images, mixtures of logistics whose means are on a logarithmic (companded) or linear scale."""
    absorbing_value: int | None = None
    """Value of hidden variables without a base; None adds a class for them."""
    num_components: int = 10
    """Logistics of a mixture."""
    min_log_scale: float = -14.0
    """Minimum logarithm of the scale of a mixture's logistics; the authors' -7 costs bits."""

    def __post_init__(self) -> None:
        if self.base is None and self.parametrization == "direct":
            raise ValueError("the direct parametrization needs a base")
        if self.base is not None and self.parametrization in MIXTURE_NAMES:
            raise ValueError("a mixture of logistics has one stage: leave the base out, or use direct")
        if self.num_components < 1:
            raise ValueError(f"a mixture needs at least one component, got {self.num_components}")
        if not -50 <= self.min_log_scale <= 0:
            raise ValueError(f"min_log_scale must lie in -50..0, got {self.min_log_scale}")
        if self.base is not None and self.base < 2:
            raise ValueError(f"the base must be at least 2, got {self.base}")


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """Method to train: an ARDM or a baseline."""

    name: Annotated[MethodName, arg(name="method")] = "ardm"
    """Model to train: an ARDM, a coding model (as --coding) or, for comparison, a D3PM (d3pm-gaussian is for images) or
    a network that is causal in random orders (permuted, as XLNet; for text) or from left to right (causal; for sound
    with the WaveNet presets)."""
    num_steps: Annotated[int, arg(name="diffusion-steps")] = 1000
    """Noise steps (T) of a D3PM."""

    def __post_init__(self) -> None:
        if self.name not in get_args(MethodName):
            raise ValueError(f"the method must be one of {', '.join(get_args(MethodName))}, got {self.name}")
        limit = MAX_GAUSSIAN_STEPS if self.name == "d3pm-gaussian" else MAX_STEPS
        if type(self.num_steps) is not int or not 1 <= self.num_steps <= limit:
            raise ValueError(f"a {self.name} model has 1 to {limit} steps of noise, got {self.num_steps}")

    @property
    def is_ardm(self) -> bool:
        """Whether it is an ARDM rather than a baseline."""
        return self.name == "ardm"

    @property
    def is_coding(self) -> bool:
        """Whether it is a coding model."""
        return self.name == "coding"

    @property
    def is_diffusion(self) -> bool:
        """Whether it is a D3PM."""
        return self.name.startswith("d3pm-")

    @property
    def is_absorbing(self) -> bool:
        """Whether it is a D3PM with the absorbing process, whose network needs no noise level."""
        return self.name == "d3pm-absorbing"

    @property
    def has_cross_entropy(self) -> bool:
        """Whether a cross-entropy can be added to the bound; autoregressive baselines have one loss only."""
        return self.is_ardm or self.is_diffusion

    @property
    def is_permuted(self) -> bool:
        """Whether it is autoregressive in random orders."""
        return self.name == "permuted"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The optimiser and the training loop."""

    steps: int
    """Training steps; a resumed run may be given more."""
    batch_size: int
    """Items per training step."""
    num_shards: Annotated[int, arg(name="shards")] = 1
    """Equal parts of a batch; each process takes its own in turn (gradient accumulation). New runs: one per process."""
    learning_rate: float
    """Peak rate of AdamW."""
    muon_rate: float | None = None
    """Peak rate of Muon, which trains the matrices inside blocks; None trains everything with AdamW."""
    betas: tuple[float, float] = (0.9, 0.99)
    """Decays of AdamW's averages of gradients and their squares."""
    weight_decay: float = 0.0
    """Each step shrinks the weights by this times the learning rate."""
    warmup_steps: int = 0
    """Steps of linear warm-up."""
    decay_fraction: float = 0.0
    """Fraction of the steps, at the end, over which the rate falls linearly to zero."""
    clip_norm: float = 1.0
    """Gradients with a larger norm are scaled down to it."""
    ema_decay: float = 0.999
    """Decay of the exponential moving average of the weights, which evaluation uses."""
    cross_entropy_weight: float = 0.0
    """Weight of the authors' cross-entropy term, which is added to the bound; both are in bits."""
    order: Annotated[str | None, arg(metavar=f"{{None,{','.join(ORDER_NAMES)}}}")] = None
    """Order to train for in the final steps, for compression in that order; other steps train for random orders."""
    order_fraction: float = 0.5
    """Fraction of the final steps trained for --order."""
    order_share: float = 1.0
    """Share of the items that those steps train in --order; the rest keep random orders, for infilling."""
    profile_momentum: float = 0.95
    """Momentum of the moving average of each component of the loss profile."""
    eval_items: int = 512
    """Held-out items of an evaluation."""
    eval_every: int = 1000
    """Steps between evaluations on held-out items."""
    checkpoint_every: int = 1000
    """Steps between checkpoints."""
    log_every: int = 50
    """Steps between lines of metrics.jsonl."""

    def __post_init__(self) -> None:
        sizes = ("steps", "batch_size", "num_shards", "eval_items", "eval_every", "checkpoint_every", "log_every")
        _require_at_least_1(self, *sizes)
        if self.batch_size % self.num_shards:
            raise ValueError(
                f"a batch of {self.batch_size} items cannot be split into {self.num_shards} equal shards (--shards, by "
                "default one per process)"
            )
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
        """Items that the network takes at once."""
        return self.batch_size // self.num_shards

    def rate_factor(self, step: int) -> float:
        """The learning rate at a step (from 0) relative to its peak: warm-up, constant, linear decay."""
        warmup = (step + 1) / (self.warmup_steps + 1)
        decay_steps = self.decay_fraction * self.steps
        decay = (self.steps - step) / decay_steps if decay_steps else 1.0
        return max(0.0, min(1.0, warmup, decay))

    def has_order(self, step: int) -> bool:
        """Whether a step (from 0) trains for `order` rather than for random orders."""
        return self.order is not None and step >= (1 - self.order_fraction) * self.steps


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run, apart from the data's content."""

    preset: Suppress[str]
    data: AvoidSubcommands[DataConfig]
    network: AvoidSubcommands[NetworkConfig]
    train: TrainConfig
    depth: DepthConfig = DepthConfig()
    method: MethodConfig = MethodConfig()
    seed: int = 0
    """Seed of the initial weights and of all random draws."""
    initial_data: Suppress[tuple[str, ...]] = ()
    """Fingerprints of the data that the initial weights were trained on."""

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
        if not isinstance(self.network, CAUSAL_NETWORKS.get(name, NetworkConfig)):
            kinds = "text, and causal for sound with the presets sc09-wavenet and sc09-paper"
            raise ValueError(f"the method {name} does not support a {self.network.kind} network: it is for {kinds}")
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
        return cls(
            preset=values["preset"],
            data=DATA_CLASSES[values["data"]["kind"]](**values["data"]),
            network=NETWORK_CLASSES[network.pop("kind")](**network),
            train=TrainConfig(**_with_tuples(values["train"])),
            depth=DepthConfig(**values["depth"]),
            method=MethodConfig(**values.get("method", {})),
            seed=values["seed"],
            initial_data=tuple(values.get("initial_data", ())),
        )


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
