"""Sounds as items: reading, refusing and writing files, folders, windows, padding and SC09."""

import math
import os
import struct
import sys
import wave
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given
from hypothesis import strategies as st

from ardm.data.corpus import Corpus, Sampler
from ardm.data.sc09 import DIGITS, find_sc09, load_sc09
from ardm.data.sound_files import WAV_GUID_TAIL, write_wav
from ardm.data.sounds import (
    SoundCorpus,
    load_sounds,
    read_clip,
)
from ardm.errors import DataError

RANDOM = np.random.default_rng(0)
PCM, FLOAT, A_LAW, MU_LAW, MP3, EXTENSIBLE = 1, 3, 6, 7, 85, 0xFFFE


def sound(*samples: int) -> np.ndarray:
    return np.array(samples, dtype=np.int16)


def random_sound(*shape: int) -> np.ndarray:
    return RANDOM.integers(-(2**15), 2**15, shape, dtype=np.int16)


def corpus_of(*clips: np.ndarray, pads: bool = False, rate: int = 16_000) -> SoundCorpus:
    return SoundCorpus(title="t", train=clips, valid=[], test=[], sample_rate=rate, pads=pads)


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def fmt(encoding: int = PCM, channels: int = 1, rate: int = 16_000, bits: int = 16, extension: bytes = b"") -> bytes:
    frame = channels * bits // 8
    return chunk(b"fmt ", struct.pack("<HHIIHH", encoding, channels, rate, rate * frame, frame, bits) + extension)


def extensible(encoding: int, tail: bytes = WAV_GUID_TAIL) -> bytes:
    return fmt(EXTENSIBLE, extension=struct.pack("<HHIH", 22, 16, 4, encoding) + tail)


def riff(*chunks: bytes) -> bytes:
    return chunk(b"RIFF", b"WAVE" + b"".join(chunks))


# Items


def test_classes_are_samples_counted_from_the_lowest():
    samples = np.arange(-(2**15), 2**15).astype(np.int16)
    assert corpus_of(samples).items("train", (2**16,)).tolist() == [list(range(2**16))]


def plain_windows(clip: list[int], size: int, pads: bool) -> list[list[int]]:
    """The windows of a clip, one sample at a time."""
    if len(clip) < size:
        return [[*clip, *[0] * (size - len(clip))]] if pads else []
    return [clip[i : i + size] for i in range(0, len(clip) - size + 1, size)]


@given(st.lists(st.lists(st.integers(-(2**15), 2**15 - 1), max_size=12), max_size=5), st.integers(1, 6), st.booleans())
def test_windows_and_padding_are_those_of_plain_python(clips, size, pads):
    corpus = corpus_of(*[sound(*clip) for clip in clips], pads=pads)
    windows = [window for clip in clips for window in plain_windows(clip, size, pads)]
    if windows:
        items = corpus.items("train", (size,))
        assert items.dtype == np.uint16
        assert items.tolist() == [[sample + 32768 for sample in window] for window in windows]
    else:
        message = f"no clip of the train split is as long as {size} samples; use longer" if clips else "has no clips"
        with pytest.raises(DataError, match=f"t: .*{message}"):
            corpus.items("train", (size,))


def test_a_corpus_is_one():
    corpus = SoundCorpus(title="t", train=[sound(1, 2)], valid=[sound(3)], test=[sound(4)], sample_rate=8000)
    assert isinstance(corpus, Corpus)
    assert isinstance(corpus.sampler((2,), torch.device("cpu")), Sampler)
    assert (corpus.num_classes, corpus.alphabet) == (65_536, None)
    assert [clip.tolist() for clip in corpus.split("all")] == [[1, 2], [3], [4]]
    assert corpus.items("all", (1,)).tolist() == [[32769], [32770], [32771], [32772]]


def test_the_fingerprint_knows_samples_lengths_and_rate():
    corpora = [
        corpus_of(sound(1, 2), sound(3)),
        corpus_of(sound(1), sound(2, 3)),
        corpus_of(sound(1, 2), sound(4)),
        corpus_of(sound(1, 2), sound(3), rate=8000),
    ]
    assert len({corpus.fingerprint for corpus in corpora}) == 4
    assert corpora[0].fingerprint == corpus_of(sound(1, 2), sound(3)).fingerprint


@pytest.mark.parametrize("pads", [False, True])
def test_windows_come_from_every_place_alike(generator, pads):
    clips = [random_sound(n) for n in (7, 2, 3, 5, 1)]
    places = {tuple(clip[i : i + 3].tolist()): 0 for clip in clips for i in range(len(clip) - 2)}
    assert len(places) == 5 + 1 + 3
    if pads:
        places |= {(*clips[1].tolist(), 0): 0, (*clips[4].tolist(), 0, 0): 0}
    drawn = corpus_of(*clips, pads=pads).sampler((3,), torch.device("cpu")).draw(1000 * len(places), generator)
    assert drawn.dtype == torch.int64
    for window in (drawn - 32768).tolist():
        places[tuple(window)] += 1  # a KeyError for a window that is none
    assert 870 < min(places.values()) <= max(places.values()) < 1130


def test_flips_turn_half_of_the_sounds_upside_down(generator):
    corpus = replace(corpus_of(sound(5, 0, -32768, 32767)), augmentation="flips")
    drawn = corpus.sampler((4,), torch.device("cpu")).draw(1000, generator) - 32768
    upright, turned = (
        (drawn == torch.tensor(values)).all(1) for values in ([5, 0, -32768, 32767], [-5, 0, 32767, -32767])
    )
    assert (upright | turned).all()
    assert 430 < upright.sum() < 570


def test_an_empty_split_is_told_from_one_of_short_clips():
    corpus = corpus_of(sound(1, 2, 3), pads=True)
    with pytest.raises(DataError, match="t: the valid split has no clips; add some, or score another with --split"):
        corpus.items("valid", (4,))
    with pytest.raises(DataError, match="t: the train split has no clips"):
        corpus_of(pads=True).sampler((4,), torch.device("cpu"))
    with pytest.raises(DataError, match="t: no clip is as long as 4 samples; use longer clips"):
        corpus_of(sound(1, 2, 3)).items("all", (4,))


def test_a_sampler_needs_a_long_clip():
    with pytest.raises(DataError, match="no clip of the train split is as long as 4 samples; use longer"):
        corpus_of(sound(1, 2, 3)).sampler((4,), torch.device("cpu"))


# Files


@given(st.lists(st.integers(-(2**15), 2**15 - 1), min_size=1), st.integers(1, 192_000))
def test_what_is_written_is_read(tmp_path_factory, samples, rate):
    path = tmp_path_factory.getbasetemp() / "round.wav"
    write_wav(path, sound(*samples), rate)
    clip = read_clip(path)
    assert (clip.samples.tolist(), clip.rate, clip.num_channels) == (samples, rate, 1)
    assert clip.samples.dtype == np.int16


def test_others_read_what_is_written(tmp_path):
    samples = random_sound(100)
    write_wav(tmp_path / "a.wav", samples, 22_050)
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.getparams()[:4] == (1, 2, 22_050, 100)
        assert file.readframes(100) == samples.astype("<i2").tobytes()
    assert np.array_equal(soundfile.read(tmp_path / "a.wav", dtype="int16")[0], samples)
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "extensible.wav"])
def test_what_others_write_is_read(tmp_path, name):
    samples = random_sound(5000)
    layout = "WAVEX" if name.startswith("extensible") else None
    soundfile.write(tmp_path / name, samples, 44_100, subtype="PCM_16", format=layout)
    clip = read_clip(tmp_path / name)
    assert np.array_equal(clip.samples, samples)
    assert clip.rate == 44_100


@pytest.mark.parametrize(
    "content",
    [
        riff(fmt(), chunk(b"data", b"\1\0\2\0")),
        riff(chunk(b"LIST", b"odd"), fmt(extension=b"\0\0"), chunk(b"fact", b"1234"), chunk(b"data", b"\1\0\2\0")),
        riff(extensible(PCM), chunk(b"data", b"\1\0\2\0"), chunk(b"LIST", b"about")),
        riff(fmt(), chunk(b"data", b"\1\0\2\0")) + b"stray bytes",
    ],
)
def test_wav_files_of_many_hands_are_read(tmp_path, content):
    (tmp_path / "a.wav").write_bytes(content)
    assert read_clip(tmp_path / "a.wav").samples.tolist() == [1, 2]


DATA = chunk(b"data", b"\1\0\2\0\3\0")
UNFIT = {
    "holds 8-bit samples; convert it to 16-bit PCM first": riff(fmt(bits=8), DATA),
    "holds 12-bit samples": riff(fmt(bits=12), DATA),
    "holds 24-bit samples": riff(fmt(bits=24), DATA),
    "holds 32-bit samples": riff(fmt(bits=32), DATA),
    "holds floating-point samples": riff(fmt(FLOAT, bits=32), DATA),
    "holds A-law samples": riff(fmt(A_LAW, bits=8), DATA),
    "holds mu-law samples": riff(fmt(MU_LAW, bits=8), DATA),
    "holds MP3 samples": riff(fmt(MP3, bits=0), DATA),
    r"holds compressed \(WAV encoding 49\) samples": riff(fmt(49), DATA),
    "holds floating-point samples; convert it to 16-bit": riff(extensible(FLOAT), DATA),
    r"holds compressed \(WAV encoding 65534\)": riff(extensible(PCM, tail=bytes(14)), DATA),
    "has 2 channels; mix it down to mono first": riff(fmt(channels=2), chunk(b"data", bytes(8))),
    "holds no samples; leave it out": riff(fmt(), chunk(b"data", b"")),
    "promises 6 bytes, but 5 are left; fetch or save it again": riff(fmt(), DATA)[:-1],
    "promises 16 bytes, but 3 are left": riff(fmt(), DATA)[:23],
    "promises 4294967295 bytes, but 2 are": riff(fmt()) + b"data" + b"\xff" * 4 + b"\1\0",
    "is damaged: it ends before its samples": riff(fmt()),
    "it ends before its samples; fetch or save": riff(),
    "it has no description of its samples": riff(DATA),
    "damaged: it has no description of its samples": riff(chunk(b"fmt ", bytes(14)), DATA),
    "5 bytes of samples are not a multiple of 2": riff(fmt(), chunk(b"data", bytes(5))),
    "6 bytes of samples are not a multiple of 4": riff(fmt(channels=2), DATA),
    "it claims 0 channels in 0 bytes at 16000 Hz": riff(fmt(channels=0), DATA),
    "it claims 1 channels in 2 bytes at 0 Hz": riff(fmt(rate=0), DATA),
    "is neither a WAV nor a FLAC file; convert it": b"RIFF\0\0\0\0AVI ",
    "is neither a WAV nor a FLAC": b"ID3 a song",
    "is empty": b"",
    "damaged: it ends before its samples": b"fLaC\0\0\0\x22",
}


@pytest.mark.parametrize(("message", "content"), UNFIT.items())
def test_what_cannot_be_kept_exactly_is_refused(tmp_path, message, content):
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as refusal:
        read_clip(path)
    assert str(refusal.value).startswith(f"{path} ")
    assert "\n" not in str(refusal.value)


def test_every_cut_of_a_wav_file_is_noticed(tmp_path):
    content = riff(chunk(b"LIST", b"odd"), fmt(), DATA)
    for length in range(len(content)):
        (tmp_path / "a.wav").write_bytes(content[:length])
        with pytest.raises(DataError, match="is damaged|neither a WAV|is empty"):
            read_clip(tmp_path / "a.wav")


def test_flac_that_cannot_be_kept_exactly_is_refused(tmp_path):
    path = tmp_path / "a.flac"
    soundfile.write(path, random_sound(500), 16_000, subtype="PCM_24")
    with pytest.raises(DataError, match="a.flac holds 24-bit samples; convert it to 16-bit PCM first"):
        read_clip(path)
    soundfile.write(path, random_sound(500, 2), 16_000, subtype="PCM_16")
    with pytest.raises(DataError, match="a.flac has 2 channels"):
        read_clip(path)
    content = bytearray(path.read_bytes())
    content[21:26] = bytes([content[21] & 0xF0, 0, 0, 0, 0])  # a length of 0 may also mean an unknown one
    path.write_bytes(content)
    with pytest.raises(DataError, match="a.flac holds no samples or does not say how many; leave it out"):
        read_clip(path)


def test_damaged_flac_is_noticed(tmp_path):
    path = tmp_path / "a.flac"
    samples = np.cumsum(RANDOM.integers(-9, 10, 9000)).astype(np.int16)
    soundfile.write(path, samples, 16_000, subtype="PCM_16")
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match="a.flac (is damaged|is neither|is empty|holds no samples or does not say)"):
            read_clip(path)
    first_frame = content.index(b"\xff\xf8")
    for bit in range(8 * first_frame, 8 * len(content), 211):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="a.flac is damaged"):
            read_clip(path)
    wrong_sum = bytearray(content)
    wrong_sum[30] ^= 1
    path.write_bytes(wrong_sum)
    with pytest.raises(DataError, match="its samples do not match its MD5"):
        read_clip(path)
    wrong_sum[26:42] = bytes(16)  # FLAC without a sum is allowed
    path.write_bytes(wrong_sum)
    assert np.array_equal(read_clip(path).samples, samples)


def test_flac_without_soundfile_says_what_to_install(tmp_path, monkeypatch):
    soundfile.write(tmp_path / "a.flac", random_sound(9), 16_000, subtype="PCM_16")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(DataError, match=r"reading FLAC needs soundfile: pip install 'ardm\[audio\]'"):
        read_clip(tmp_path / "a.flac")


def test_files_that_cannot_be_opened_are_told(tmp_path):
    with pytest.raises(DataError, match=r"none.wav cannot be read \(No such file"):
        read_clip(tmp_path / "none.wav")


def test_stereo_is_averaged_with_halves_to_even(tmp_path):
    pairs = [(1, 2), (2, 3), (-1, -2), (-2, -3), (32767, 32767), (-32768, -32768), (32767, -32768), (5, 9)]
    (tmp_path / "a.wav").write_bytes(riff(fmt(channels=2), chunk(b"data", np.array(pairs, "<i2").tobytes())))
    clip = read_clip(tmp_path / "a.wav", mix_down=True)
    assert clip.samples.tolist() == [2, 2, -2, -2, 32767, -32768, 0, 7]
    assert clip.num_channels == 2


@given(st.data(), st.integers(2, 7))
def test_any_number_of_channels_is_averaged_exactly(tmp_path_factory, data, channels):
    frame = data.draw(st.lists(st.integers(-(2**15), 2**15 - 1), min_size=channels, max_size=channels))
    path = tmp_path_factory.getbasetemp() / "mixed.wav"
    path.write_bytes(riff(fmt(channels=channels), chunk(b"data", np.array(frame, "<i2").tobytes())))
    assert read_clip(path, mix_down=True).samples.tolist() == [round(Fraction(sum(frame), channels))]


# Folders


def test_a_folder_is_split_by_name(tmp_path):
    (tmp_path / "sub").mkdir()
    for i in range(45):
        write_wav(tmp_path / ("sub" if i % 2 else ".") / f"{i}.{'WAV' if i % 3 else 'wav'}", sound(i), 8000)
    (tmp_path / "notes.txt").write_text("no sound")
    corpus = load_sounds(tmp_path)
    assert [len(corpus.split(s)) for s in ("train", "valid", "test", "all")] == [41, 2, 2, 45]
    assert sorted(clip.item() for clip in corpus.split("all")) == list(range(45))
    assert (corpus.title, corpus.sample_rate, corpus.pads) == (tmp_path.name, 8000, False)
    assert corpus.fingerprint == load_sounds(tmp_path, to_score=True).fingerprint


def test_a_title_tells_what_was_mixed_down(tmp_path):
    folder = tmp_path / "my-sounds"
    folder.mkdir()
    for i in range(5):
        soundfile.write(folder / f"{i}.flac", random_sound(10, 1 + i % 2), 8000, subtype="PCM_16")
    assert load_sounds(folder).title == "my-sounds (2 of 5 files mixed down to mono)"
    assert load_sounds(folder / "1.flac", to_score=True).title == "1.flac (1 of 1 files mixed down to mono)"


def test_a_title_tells_what_was_left_out(tmp_path):
    folder = tmp_path / "my-sounds"
    for i in range(6):
        write_wav(folder / f"{i}.wav", random_sound(3 if i < 2 else 10), 8000)
    told = "my-sounds (2 of 6 clips shorter than a window left out)"
    assert load_sounds(folder, 4).title == load_sounds(folder, 4, to_score=True).title == told
    assert load_sounds(folder, 3).title == load_sounds(folder, 11, to_score=True).title == "my-sounds"
    soundfile.write(folder / "6.flac", random_sound(10, 2), 8000, subtype="PCM_16")
    told = "my-sounds (1 of 7 files mixed down to mono, 2 of 7 clips shorter than a window left out)"
    assert load_sounds(folder, 4).title == told


def test_one_file_is_all_test(tmp_path):
    write_wav(tmp_path / "one.wav", sound(-1, 0, 1), 8000)
    corpus = load_sounds(tmp_path / "one.wav", to_score=True)
    assert corpus.title == "one.wav"
    assert corpus.items("all", (3,)).tolist() == corpus.items("test", (3,)).tolist() == [[32767, 32768, 32769]]


def test_folders_that_cannot_be_used_are_told(tmp_path):
    with pytest.raises(DataError, match="there is no folder"):
        load_sounds(tmp_path / "none", to_score=True)
    with pytest.raises(DataError, match="has 0 WAV and FLAC files; at least 1 is needed"):
        load_sounds(tmp_path, to_score=True)
    with pytest.raises(DataError, match="has 0 WAV and FLAC files; at least 3 are needed"):
        load_sounds(tmp_path)
    for name, rate in (("a", 8000), ("b", 8000), ("c", 16_000)):
        write_wav(tmp_path / f"{name}.wav", sound(1), rate)
    with pytest.raises(DataError, match=r"a.wav has 8000 Hz and .*c.wav has 16000 Hz; resample them to one rate"):
        load_sounds(tmp_path, to_score=True)
    with pytest.raises(DataError, match="a.wav is a file; a folder of WAV and FLAC files is needed"):
        load_sounds(tmp_path / "a.wav")


def test_a_small_folder_is_scored_but_not_trained_on(tmp_path):
    for i in range(2):
        write_wav(tmp_path / f"{i}.wav", sound(i, i), 8000)
    (tmp_path / "._0.wav").write_bytes(b"what macOS keeps")
    corpus = load_sounds(tmp_path, to_score=True)
    assert corpus.items("all", (2,)).tolist() == corpus.items("test", (2,)).tolist() == [[32768] * 2, [32769] * 2]
    with pytest.raises(DataError, match="has 2 WAV and FLAC files; at least 3 are needed, one for each split"):
        load_sounds(tmp_path)


# SC09


def write_speech_commands(folder: Path) -> dict[str, list[np.ndarray]]:
    """Two training clips, a validation clip and a test clip of each digit, and another word."""
    written: dict[str, list[np.ndarray]] = {"train": [], "valid": [], "test": []}
    listed: dict[str, list[str]] = {"valid": [], "test": []}
    for word in sorted([*DIGITS, "bird"]):
        for i, split in enumerate(["train", "valid", "test", "train"]):
            clip = random_sound(16_000 if i else 9000)
            write_wav(folder / word / f"{i}_nohash_0.wav", clip, 16_000)
            if word != "bird":
                written[split].append(clip)
            if split != "train":
                listed[split].append(f"{word}/{i}_nohash_0.wav\n")
    (folder / "validation_list.txt").write_text("".join(reversed(listed["valid"])))
    (folder / "testing_list.txt").write_text("".join(listed["test"]))
    return written


def test_sc09_is_the_digits_in_the_official_splits(tmp_path, monkeypatch):
    folder = tmp_path / "speech_commands"
    written = write_speech_commands(folder)
    (folder / "one" / "._0_nohash_0.wav").write_bytes(b"what macOS keeps")
    for root in (tmp_path, folder):
        corpus = load_sc09(root)
        for split, clips in written.items():
            for clip, expected in zip(corpus.split(split), clips, strict=True):
                assert np.array_equal(clip, expected)
        assert (corpus.title, corpus.sample_rate, corpus.pads) == ("SC09 (part: 20/10/10 clips)", 16_000, True)
    assert corpus.items("train", (16_000,)).shape == (20, 16_000)
    assert [len(clip) for clip in corpus.split("train")] == [9000, 16_000] * 10
    assert (corpus.items("train", (16_000,))[0, 9000:] == 32768).all()
    monkeypatch.setattr("ardm.data.sc09.PAPER_COUNTS", (20, 10, 10))
    assert load_sc09(tmp_path).title == "SC09"


def test_sc09_problems_are_told(tmp_path):
    with pytest.raises(DataError, match="there is no Speech Commands at .*; unpack http.*tar.gz in .*speech_commands"):
        load_sc09(tmp_path)
    assert find_sc09(tmp_path) is None
    write_speech_commands(tmp_path)
    assert find_sc09(tmp_path) == tmp_path
    write_wav(tmp_path / "one" / "0_nohash_0.wav", sound(1), 8000)
    with pytest.raises(DataError, match="0_nohash_0.wav has 8000 Hz, but Speech Commands has 16000"):
        load_sc09(tmp_path)
    (tmp_path / "two" / "1_nohash_0.wav").unlink()
    with pytest.raises(DataError, match="two/1_nohash_0.wav is missing, but validation_list.txt lists it; unpack"):
        load_sc09(tmp_path)
    (tmp_path / "validation_list.txt").unlink()
    with pytest.raises(DataError, match="validation_list.txt and testing_list.txt are missing from it"):
        load_sc09(tmp_path)


def test_sc09_without_clips_is_told(tmp_path):
    for name in ("validation_list.txt", "testing_list.txt"):
        (tmp_path / name).write_text("")
    write_wav(tmp_path / "bird" / "0.wav", sound(1), 16_000)
    with pytest.raises(DataError, match=r"has no clips of digits \(zero/\*.wav and so on\); unpack http"):
        load_sc09(tmp_path)
    write_wav(tmp_path / "two" / "0.wav", sound(1), 16_000)
    with pytest.raises(DataError, match=r"SC09 \(part: 1/0/0 clips\): the valid split has no clips"):
        load_sc09(tmp_path).items("valid", (16_000,))


@pytest.mark.skipif(
    not Path(os.environ.get("ARDM_DATA", "none"), "speech_commands").exists(),
    reason="set ARDM_DATA to a folder with the real speech_commands",
)
def test_the_real_sc09():
    corpus = load_sc09(Path(os.environ["ARDM_DATA"]))
    counts = [len(corpus.split(s)) for s in ("train", "valid", "test")]
    assert corpus.title in ("SC09", f"SC09 (part: {'/'.join(map(str, counts))} clips)")
    assert corpus.items("test", (16_000,)).shape == (counts[2], 16_000)
    assert 0.9 < np.mean([len(clip) == 16_000 for clip in corpus.split("test")]) < 1
    loudness = [math.sqrt(np.mean(clip.astype(float) ** 2)) for clip in corpus.test]
    assert 1500 < np.mean(loudness) < 3000
