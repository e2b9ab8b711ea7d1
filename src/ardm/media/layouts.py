"""Users' files as contents, and contents as arrays of a model's classes. One medium a file."""

from ardm.checkpoint import TrainedModel
from ardm.codec.format.fields import BytesFields, Fields, ImageFields, SoundFields, TextFields
from ardm.config import ImageData, SoundData
from ardm.media.contents import Content
from ardm.media.images.layout import ImageLayout, image_file
from ardm.media.layout import Layout
from ardm.media.sounds.layout import SoundLayout, sound_file
from ardm.media.text.layout import BytesLayout, TextLayout


def layout_of(trained: TrainedModel) -> Layout:
    """The layout of what a model takes."""
    if isinstance(trained.config.data, ImageData):
        return ImageLayout(trained.config.data.channels)
    if isinstance(trained.config.data, SoundData):
        return SoundLayout()
    assert trained.alphabet is not None
    return BytesLayout() if trained.alphabet.characters is None else TextLayout(trained.alphabet.characters)


def own_fields(trained: TrainedModel) -> Fields:
    """What an item of exactly the model's own shape is."""
    shape, data = trained.model.shape, trained.config.data
    if isinstance(data, ImageData):
        return ImageFields(width=shape[1], height=shape[0], mode="RGB" if shape[2] == 3 else "L")
    if isinstance(data, SoundData):
        assert trained.sample_rate is not None
        return SoundFields(num_samples=shape[0], num_channels=1, sample_rate=trained.sample_rate)
    assert trained.alphabet is not None
    return BytesFields(length=shape[0]) if trained.alphabet.characters is None else TextFields(length=shape[0])


def restored_file(content: Content) -> bytes:
    """The file that a content is restored to: a PNG, a WAV, or the very bytes of a text or any other file."""
    if isinstance(content.fields, ImageFields):
        return image_file(content)
    return sound_file(content) if isinstance(content.fields, SoundFields) else content.raw


def restored_suffix(fields: Fields) -> str | None:
    """How the names of restored files must end; None: in any way."""
    if isinstance(fields, ImageFields):
        return ".png"
    return ".wav" if isinstance(fields, SoundFields) else None
