"""Text, images and sound beyond their items: files to score, gaps to fill, samples to show. One medium a file."""

from ardm.checkpoint import TrainedModel
from ardm.config import AudioData, TextData
from ardm.media.audio import AudioMedium
from ardm.media.images import ImageMedium
from ardm.media.medium import Medium
from ardm.media.text import TextMedium


def medium_of(trained: TrainedModel) -> Medium:
    """The medium of a model's items."""
    if isinstance(trained.config.data, TextData):
        return TextMedium(trained)
    return AudioMedium(trained) if isinstance(trained.config.data, AudioData) else ImageMedium(trained)
