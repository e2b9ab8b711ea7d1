"""SC09: the spoken digits of Speech Commands, in the splits of the lists that come with it."""

from pathlib import Path

from ardm.config import Augmentation
from ardm.data.folders import FileSplits, is_hidden
from ardm.data.sounds import Samples, SoundCorpus, read_clip
from ardm.errors import DataError

URL = "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz"
FOLDER = "speech_commands"
VALID_LIST, TEST_LIST = "validation_list.txt", "testing_list.txt"
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RATE = 16_000

PAPER_COUNTS = (31_158, 3_643, 4_107)
"""Clips per split in the paper (its appendix on audio)."""


def load_sc09(root: Path, augmentation: Augmentation = "none") -> SoundCorpus:
    """The digits of Speech Commands from a folder that holds, or is, `speech_commands`.

    Clips shorter than an item are padded with zeros at the end, as in the paper.
    """
    splits = sc09_files(root)
    train, valid, test = (list(map(read_digit, files)) for files in splits)
    return SoundCorpus(
        title=sc09_title(splits),
        is_published=True,
        train=train,
        valid=valid,
        test=test,
        sample_rate=RATE,
        pads=True,
        augmentation=augmentation,
    )


def sc09_files(root: Path) -> FileSplits:
    """The files of the digits, sorted, in the splits of the lists."""
    folder = find_sc09(root)
    if folder is None:
        raise DataError(
            f"there is no Speech Commands at {root}, or {VALID_LIST} and {TEST_LIST} are missing from it; "
            f"unpack {URL} in {root / FOLDER}"
        )
    held = {name: _listed_digits(folder / name) for name in (VALID_LIST, TEST_LIST)}
    files = [file for word in DIGITS for file in (folder / word).glob("*.wav") if not is_hidden(Path(file.name))]
    everything = {f"{file.parent.name}/{file.name}" for file in files}
    for name, listed in held.items():
        if missing := sorted(listed - everything):
            raise DataError(f"{folder / missing[0]} is missing, but {name} lists it; unpack {URL} again")
    if not everything:
        raise DataError(f"{folder} has no clips of digits ({DIGITS[0]}/*.wav and so on); unpack {URL} in it")
    splits = (everything - held[VALID_LIST] - held[TEST_LIST], held[VALID_LIST], held[TEST_LIST])
    return FileSplits(*([folder / name for name in sorted(names)] for names in splits))


def find_sc09(root: Path) -> Path | None:
    """The folder with the words and the lists, if a folder holds, or is, `speech_commands`."""
    candidates = (root / FOLDER, root)
    return next((f for f in candidates if (f / VALID_LIST).is_file() and (f / TEST_LIST).is_file()), None)


def _listed_digits(path: Path) -> set[str]:
    names = path.read_text(encoding="utf-8", errors="replace").split()
    return {name for name in names if name.partition("/")[0] in DIGITS}


def read_digit(path: Path) -> Samples:
    """The samples of a file, which must have the common rate."""
    clip = read_clip(path)
    if clip.rate != RATE:
        raise DataError(f"{path} has {clip.rate} Hz, but Speech Commands has {RATE}; unpack {URL} again")
    return clip.samples


def sc09_title(splits: FileSplits) -> str:
    """The data set's name, with the numbers of clips unless they are the paper's."""
    counts = tuple(map(len, splits))
    return "SC09" if counts == PAPER_COUNTS else f"SC09 (part: {'/'.join(map(str, counts))} clips)"
