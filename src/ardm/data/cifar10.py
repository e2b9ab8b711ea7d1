"""CIFAR-10, in the binary or the Python version of its authors, checked by md5."""

import hashlib
import pickle
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from ardm.config import Augmentation
from ardm.data.images import ImageCorpus
from ardm.errors import DataError

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
BINARY_FOLDER, PYTHON_FOLDER = "cifar-10-batches-bin", "cifar-10-batches-py"
NUM_HELD_OUT = 1000
"""Number of training images, the last ones, for validation; the test images are only for reporting."""

MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}


def load_cifar10(root: Path, augmentation: Augmentation = "none", *, holds_out: bool = True) -> ImageCorpus:
    """CIFAR-10 from a folder that holds, or is, either version's folder.

    The last training images are for validation; unless they are held out, they are trained on as well.
    """
    folder = find_cifar10(root)
    if folder is None:
        raise DataError(
            f"there is no CIFAR-10 at {root}; `ardm data cifar10 --root DIR` fetches it, or unpack {URL} there"
        )
    suffix = ".bin" if (folder / "test_batch.bin").exists() else ""
    train = np.concatenate([read_batch(folder / f"data_batch_{i}{suffix}") for i in range(1, 6)])
    test = read_batch(folder / f"test_batch{suffix}")
    return ImageCorpus(
        title="CIFAR-10",
        is_published=True,
        train=list(train[:-NUM_HELD_OUT] if holds_out else train),
        valid=list(train[-NUM_HELD_OUT:]),
        test=list(test),
        augmentation=augmentation,
    )


def find_cifar10(root: Path) -> Path | None:
    """The folder with the batches, if a folder holds, or is, either version's."""
    candidates = (root / BINARY_FOLDER, root / PYTHON_FOLDER, root)
    return next((f for f in candidates if (f / "test_batch.bin").exists() or (f / "test_batch").exists()), None)


def read_batch(path: Path) -> UInt8[np.ndarray, "N 32 32 3"]:
    """The images of one file of either version, whose md5 is checked first."""
    if not path.is_file():
        raise DataError(f"{path} is missing; fetch CIFAR-10 again with `ardm data cifar10 --root DIR`")
    content = path.read_bytes()
    if hashlib.md5(content).hexdigest() != MD5[path.name]:
        raise DataError(f"{path} is damaged (its md5 is not {MD5[path.name]}); fetch CIFAR-10 again")
    if path.suffix == ".bin":
        planes = np.frombuffer(content, np.uint8).reshape(-1, 3073)[:, 1:]
    else:
        planes = np.asarray(pickle.loads(content, encoding="bytes")[b"data"])
    return np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
