"""Draw the spectrograms of sounds of one length, four in a row: python runs/spectrograms.py OUT.png SOUND..."""

import sys
from pathlib import Path

from ardm.data.sounds import read_clip
from ardm.media.images.pictures import write_png
from ardm.media.sounds.spectrograms import Panel, draw_spectrograms

out, *paths = map(Path, sys.argv[1:])
clips = [read_clip(path) for path in paths]
panels = [Panel(sound=clip.samples, title=path.stem) for clip, path in zip(clips, paths, strict=True)]
write_png(out, draw_spectrograms(panels, columns=4, rate=clips[0].rate))
