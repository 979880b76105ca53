"""Small networks as PyTorch exports them: loops of scripts, greedy search, bags of embeddings, spotted words."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import onnx

from tools.small.made import Made, Makers


def makers() -> Makers:
    """Return what makes each network; without PyTorch, none."""
    try:
        import torch
    except ImportError as error:
        print(f"left out: {error}")
        return {}
    from torch import nn

    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    found: dict[str, Callable[[], Made]] = {}

    def network(name: str, module: Any, feeds: dict[str, Any], *, script: bool = False, **options: Any) -> None:
        found[name] = partial(_exported, torch, torch.jit.script(module) if script else module, feeds, options)

    class Greedy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.step, self.words = nn.Embedding(50, 32), nn.Linear(64, 32), nn.Linear(32, 50)

        def forward(self, h, n):  # type: ignore[no-untyped-def]
            t = torch.zeros(1, dtype=torch.long)
            made = torch.zeros(0, dtype=torch.long)
            for _ in range(int(n)):
                h = torch.tanh(self.step(torch.cat([self.table(t), h], -1)))
                t = self.words(h).argmax(-1)
                made = torch.cat([made, t])
            return made

    class While(nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            n = torch.zeros(1, dtype=torch.long)
            while bool(x.abs().max() > 1e-2) and int(n) < 50:
                x = x * 0.5 - x.mean() * 0.1
                n = n + 1
            return x, n

    class Cells(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gates = nn.Linear(48, 128)

        def forward(self, x, h, c):  # type: ignore[no-untyped-def]
            made = []
            for i in range(x.size(0)):
                a, b, e, f = self.gates(torch.cat([x[i], h], -1)).chunk(4, -1)
                c = torch.sigmoid(b) * c + torch.sigmoid(a) * torch.tanh(e)
                h = torch.sigmoid(f) * torch.tanh(c)
                made.append(h)
            return torch.stack(made), h, c

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag, self.last = nn.EmbeddingBag(100, 16, mode="mean"), nn.Linear(16, 4)

        def forward(self, x, begins):  # type: ignore[no-untyped-def]
            return self.last(self.bag(x, begins))

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.all, self.last = nn.Embedding(300, 64), nn.Linear(64, 192), nn.Linear(64, 300)

        def forward(self, t, keys, values):  # type: ignore[no-untyped-def]
            q, k, v = (p.view(1, -1, 4, 16).transpose(1, 2) for p in self.all(self.table(t)).chunk(3, -1))
            k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            y = (q @ k.transpose(2, 3) / 4).softmax(-1) @ v
            return self.last(y.transpose(1, 2).reshape(1, -1, 64)), k, v

    class Stream(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.last = nn.GRU(40, 64, 2, batch_first=True), nn.Linear(64, 2)

        def forward(self, x, h):  # type: ignore[no-untyped-def]
            y, h = self.layers(x, h)
            return self.last(y).softmax(-1), h

    class Peaks(nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            kept = x[x[:, 0] > 0.3]
            return kept[kept[:, 1].argsort(descending=True)[:10]]

    class Decoded(nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            i = x.argmax(-1)[0]
            kept = torch.cat([torch.ones(1, dtype=torch.bool), i[1:] != i[:-1]]) & (i != 0)
            return i[kept], x.max(-1)[0][0][kept].mean()

    def separable() -> Any:
        layers: list[Any] = [nn.Conv2d(1, 64, (10, 4), (2, 2), (5, 1)), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Conv2d(64, 64, 3, 1, 1, groups=64), nn.ReLU(), nn.Conv2d(64, 64, 1), nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))

    def normal(*shape: int) -> Any:
        return torch.randn(*shape)

    network("greedy_search", Greedy(), {"h": normal(1, 32), "n": torch.tensor(6)}, script=True)
    network("while", While(), {"x": normal(8)}, script=True)
    network("cells", Cells(), {"x": normal(10, 1, 16), "h": normal(1, 32), "c": normal(1, 32)}, script=True)
    network("bag", Bag(), {"x": torch.randint(0, 100, (9,)), "begins": torch.tensor([0, 4, 6])})
    past = {"keys": normal(1, 4, 10, 16), "values": normal(1, 4, 10, 16)}
    lengths = {"keys": {2: "past"}, "values": {2: "past"}}
    network("decoder_step", Step(), {"t": torch.tensor([[3]]), **past}, dynamic_axes=lengths)
    network("gru_step", Stream(), {"x": normal(1, 1, 40), "h": normal(2, 1, 64)})
    network("spotted_words", separable(), {"x": normal(1, 1, 49, 10)})
    network("peaks", Peaks(), {"x": normal(40, 5)})
    network("decoded", Decoded(), {"x": normal(1, 40, 30)})
    return found


def _exported(torch: Any, module: Any, feeds: dict[str, Any], options: dict[str, Any]) -> Made:
    written = io.BytesIO()
    given: Sequence[Any] = tuple(feeds.values())
    torch.onnx.export(module.eval(), given, written, input_names=[*feeds], opset_version=17, dynamo=False, **options)
    model = onnx.load_from_string(written.getvalue())
    names = {value.name for value in model.graph.input}
    return model, {name: a.numpy() for name, a in feeds.items() if name in names}
