"""What a researcher wants to do, in a few lines of code; each program runs as it stands."""

import textwrap

import pytest
from documents import ROOT

LINES = {
    "score": 2,
    "sample": 2,
    "fill": 2,
    "conditional": 2,
    "plan curve": 4,
    "image": 8,
    "own network": 30,
    "table": 25,
}
"""The most lines that each task may take, imports aside; a network's own lines count."""

TASKS = {
    "score": """
        model = ardm.load("text")
        print(model.score("the cat sat on the mat", order="raster", calls=5))
    """,
    "sample": """
        model = ardm.load("text")
        print(model.sample(3, calls=5))
    """,
    "fill": """
        model = ardm.load("text")
        print(model.infill("the c__ sat on ___ mat", n=3, calls=2))
    """,
    "conditional": """
        model = ardm.load("text")
        print(model.conditional("the cat sat on the mat", target=[(4, 7)]))
    """,
    "plan curve": """
        model = ardm.load("text")
        for calls in (5, 10, 20, 50):
            print(calls, model.plan(calls).bits)
        model.plan(20).plot("plan.png")
    """,
    "image": """
        model = ardm.load("images")
        picture = Image.open("cat.png").convert("RGB").resize((32, 32))
        print(model.score(picture, passes=4))
        filled = model.infill(picture, (8, 8, 16, 16), n=2, calls=8)
        Image.fromarray(np.hstack(filled)).save("filled.png")
        samples = model.sample(4, calls=8)
        Image.fromarray(np.hstack(samples)).save("samples.png")
    """,
    "own network": """
        class Net(nn.Module):
            def __init__(self, width=16):
                super().__init__()
                self.values = nn.Embedding(3, width)
                self.places = nn.Parameter(torch.zeros(28, 28, width))
                self.steps = nn.Linear(1, width)
                layers = []
                for dilation in (1, 2, 4, 8):
                    layers += [nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation), nn.SiLU()]
                self.body = nn.Sequential(*layers)
                self.head = nn.Linear(width, 2)

            def forward(self, inputs, mask, stage, t):
                x = self.values(inputs) + self.places
                x = x + self.steps(t[:, None] / 784)[:, None, None]
                x = x.permute(0, 3, 1, 2)
                x = x + self.body(x)
                return self.head(x.permute(0, 2, 3, 1))

        images = torch.zeros(64, 28, 28).long()
        images[:, 8:20, 8:20] = 1
        model = ardm.order_agnostic(Net(), num_classes=2, shape=(28, 28))
        print(ardm.check(model))
        ardm.fit(model, images, steps=4, batch_size=8)
        print(model.score(images[:8], passes=2), model.plan(20).lost_bits)
        print(model.sample(2, calls=5).shape, model.infill(images[0], mask=slice(0, 392), calls=5).shape)
        ardm.save(model, "own.safetensors", arguments={"width": 16})
        model = ardm.load("own.safetensors", network=Net)
    """,
    "table": """
        class Net(nn.Module):
            def __init__(self, counts, width=64):
                super().__init__()
                self.values = nn.Embedding(max(counts) + 1, 8)
                self.layers = nn.Sequential(
                    nn.Linear(8 * len(counts), width), nn.SiLU(), nn.Linear(width, len(counts) * max(counts))
                )

            def forward(self, inputs, mask, stage, t):
                return self.layers(self.values(inputs).flatten(1)).unflatten(1, (inputs.shape[1], -1))

        counts = list(range(2, 18))
        rows = np.random.default_rng(0).integers(0, counts, size=(200, 16)).astype(float)
        rows[::3, 5] = np.nan
        model = ardm.order_agnostic(Net(counts), num_classes=counts, shape=16)
        ardm.fit(model, rows, steps=20)
        print(model.score(rows[:50], passes=2))
        print(model.conditional(rows[1:3], target=[0, 4], given=[1, 2]).bits)
        print(model.table(rows[0], mask=[5])[0])
        print(model.infill(rows[0], n=3))
    """,
}
IMPORTS = "import numpy as np\nimport torch\nfrom PIL import Image\nfrom torch import nn\n\nimport ardm\n"


@pytest.mark.parametrize("name", TASKS)
def test_a_task_takes_few_lines(name, tmp_path, monkeypatch):
    code = textwrap.dedent(TASKS[name]).strip()
    assert sum(bool(line.strip()) for line in code.splitlines()) <= LINES[name]
    (tmp_path / "cat.png").write_bytes((ROOT / "examples" / "cat.png").read_bytes())
    monkeypatch.chdir(tmp_path)
    exec(compile(f"{IMPORTS}torch.manual_seed(0)\n{code}", name, "exec"), {"__name__": "task"})
