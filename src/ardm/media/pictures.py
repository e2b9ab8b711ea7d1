"""Pictures as arrays: grids of images, spectrograms, PNG files."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int16, UInt8
from PIL import Image

from ardm.files import written_whole

GAP = 2
"""Pixels between the images of a grid."""
COLOURS = ((0, 0, 4), (87, 16, 110), (188, 55, 84), (249, 142, 9), (252, 255, 164))
"""From silent to loud, by equal steps (after matplotlib's inferno)."""
LOUDNESS_RANGE = 80.0
"""Decibels from the loudest point of 16-bit sound down to black."""

Picture = UInt8[np.ndarray, "_ _ _"]
"""Height, width, channels."""


def grid(images: UInt8[np.ndarray, "N H W C"], columns: int) -> Picture:
    """Images in rows on white; a single one as it is."""
    count, height, width, channels = images.shape
    if count == 1:
        return images[0]
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    picture = np.full((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, channels), 255, np.uint8)
    for i, image in enumerate(images):
        top, left = i // columns * (height + GAP), i % columns * (width + GAP)
        picture[top : top + height, left : left + width] = image
    return picture


def spectrogram(samples: Int16[np.ndarray, "T"], window: int = 256) -> Picture:
    """Loudness over time (to the right, a column each quarter of a window) and frequency (upwards)."""
    sound = torch.from_numpy(samples.astype(np.float32)) / 2**15
    sound = torch.nn.functional.pad(sound, (0, max(0, window - len(sound))))
    hann = torch.hann_window(window)
    frequencies = torch.stft(
        sound, window, window // 4, window=hann, center=True, pad_mode="constant", return_complex=True
    )
    decibels = 20 * (frequencies.abs() / hann.sum() + 1e-9).log10()
    loudness = (1 + decibels / LOUDNESS_RANGE).clamp(0, 1).flip(0).numpy()
    steps = np.linspace(0, 1, len(COLOURS))
    channels = [np.interp(loudness, steps, [colour[c] for colour in COLOURS]) for c in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def write_png(path: Path, picture: Picture) -> None:
    """Write a grey or colour image."""
    squeezed = picture[:, :, 0] if picture.shape[2] == 1 else picture
    with written_whole(path) as temporary:
        Image.fromarray(squeezed).save(temporary, format="PNG")
