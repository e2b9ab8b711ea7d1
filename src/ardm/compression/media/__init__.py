"""Users' files as contents, and contents as arrays of a model's classes. One medium a file."""

from ardm.checkpoint import TrainedModel
from ardm.compression.contents import Content
from ardm.compression.media.image import ImageLayout, image_file
from ardm.compression.media.layout import Layout
from ardm.compression.media.sound import SoundLayout, sound_file
from ardm.compression.media.text import BytesLayout, TextLayout
from ardm.config import AudioData, ImageData
from ardm.container.fields import Fields, ImageFields, SoundFields


def layout_of(trained: TrainedModel) -> Layout:
    """The layout of what a model takes."""
    if isinstance(trained.config.data, ImageData):
        return ImageLayout(trained.config.data.channels)
    if isinstance(trained.config.data, AudioData):
        return SoundLayout()
    assert trained.alphabet is not None
    return BytesLayout() if trained.alphabet.characters is None else TextLayout(trained.alphabet.characters)


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
