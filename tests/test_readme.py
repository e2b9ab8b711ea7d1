"""The README's example runs as it stands."""

import re
from pathlib import Path

from ardm.runtime import Runtime
from ardm.train import run_training
from ardm.trainer import Trainer
from tiny import TEXT, tiny_config, tiny_corpus

README = Path(__file__).parent.parent / "README.md"


def test_the_library_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    trainer = Trainer(tiny_config(), tiny_corpus(tmp_path), Runtime.choose("cpu"))
    run_training(trainer, tmp_path / "run")
    Path("more.txt").write_text(TEXT)
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    bits, text = capsys.readouterr().out.splitlines()
    assert bits.startswith("tensor([")
    assert len(text) == trainer.model.num_variables
