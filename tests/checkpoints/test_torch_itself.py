"""Files that torch itself wrote, against what torch says of them."""

from __future__ import annotations

import io
import zlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkpoints import Read, read
from trainproof.checkpoints.distributed import read_distributed
from trainproof.model.tensors import DefectCode, Extent, Integrity, Layout, Safety, TensorInfo

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

FLOATS = (
    *("float64", "float32", "float16", "bfloat16", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
)
WHOLE = ("int8", "uint8", "int16", "int32", "int64", "bool")


def saved(value: object, **options: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


def agrees(one: TensorInfo, tensor: Any) -> bool:
    """Type, shape, and how many values are NaN, infinite, and whether all are zero."""
    wide = tensor if tensor.dtype.itemsize > 1 or not tensor.is_floating_point() else tensor.float()
    counts = (int(wide.isnan().sum()), int(wide.isinf().sum()), not bool((wide != 0).any()))
    dtype = str(tensor.dtype).removeprefix("torch.")
    stats = one.stats
    assert stats is not None
    told = (stats.nan, stats.inf, stats.all_zero)
    return (one.dtype, one.shape, told) == (dtype, tuple(tensor.shape), counts)


def of_every_type() -> dict[str, Any]:
    special = torch.tensor([1.0, -2.0, float("nan"), float("inf"), 0.0, 3.0])
    made = {name: special.to(getattr(torch, name)) for name in FLOATS}
    made |= {name: torch.arange(3).to(getattr(torch, name)) for name in WHOLE}
    return made


def of_every_form() -> dict[str, Any]:
    base = torch.randn(6, 4)
    base[1, 1] = float("nan")
    return {
        "base": base,
        "transposed": base.T,
        "rows": base[::2],
        "column": base[:, 1],
        "expanded": torch.ones(1).expand(3),
        "scalar": torch.tensor(2.0),
        "empty": torch.empty(0, 3),
        "parameter": torch.nn.Parameter(torch.zeros(2, 2)),
        "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "tied": base,
    }


@pytest.mark.parametrize("make", [of_every_type, of_every_form])
@pytest.mark.parametrize("options", [{}, {"pickle_protocol": 4}, {"pickle_protocol": 5}])
def test_every_tensor_is_as_torch_has_it(
    make: Callable[[], dict[str, Any]], options: dict[str, Any]
):
    tensors = make()
    made = read(saved(tensors, **options))
    assert [name for name, one in tensors.items() if not agrees(made.tensors[name], one)] == []
    assert (made.facts.extent, made.facts.integrity) == (Extent.READ, Integrity.VERIFIED)
    assert made.facts.safety is Safety.SAFE


def test_files_of_old_versions_are_as_torch_has_them():
    tensors = of_every_form()
    made = read(saved(tensors, _use_new_zipfile_serialization=False))
    assert made.facts.layout is Layout.TORCH_LEGACY
    assert [name for name, one in tensors.items() if not agrees(made.tensors[name], one)] == []


def trained() -> tuple[Any, Any]:
    model = torch.nn.Sequential(
        OrderedDict(fc=torch.nn.Linear(4, 3), bn=torch.nn.BatchNorm1d(3), out=torch.nn.Linear(3, 1))
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    return model, optimizer


def test_a_training_state_has_its_optimizer_and_its_steps():
    model, optimizer = trained()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    made = read(saved(state))
    (one,) = made.facts.optimizers
    assert (one.name, one.parameters, one.states, one.steps) == ("optimizer", 6, 6, (3,))
    assert one.lrs == (0.001,)
    assert made.facts.weights_only is True


def test_scripted_modules_are_read_under_the_names_of_their_parameters():
    model, _ = trained()
    stream = io.BytesIO()
    torch.jit.save(torch.jit.trace(model.eval(), torch.randn(2, 4)), stream)
    made = read(stream.getvalue())
    assert made.facts.layout is Layout.TORCH_SCRIPT
    state = model.state_dict()
    assert set(state) <= set(made.tensors)
    assert all(agrees(made.tensors[name], one) for name, one in state.items())


def test_exported_programs_are_read():
    model, _ = trained()
    stream = io.BytesIO()
    torch.export.save(torch.export.export(model.eval(), (torch.randn(2, 4),)), stream)
    made = read(stream.getvalue())
    assert made.facts.layout is Layout.TORCH_EXPORT
    state = model.state_dict()
    assert all(agrees(made.tensors[name], one) for name, one in state.items())
    assert (made.facts.safety, made.codes) == (Safety.SAFE, [])


def test_every_cut_of_a_file_is_noticed():
    whole = saved(of_every_form())
    for end in range(1, len(whole), 97):
        made = read(whole[:end])
        assert DefectCode.TRUNCATED in made.codes or made.facts.extent is Extent.NOT_CHECKED


def test_what_is_reserved_and_not_written_is_no_data():
    with torch.serialization.skip_data():
        data = saved({"w": torch.ones(4)})
    assert read(data).codes == [DefectCode.PLACEHOLDER]


def test_a_file_without_checksums_is_not_damaged():
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        made: Read = read(saved({"w": torch.ones(4)}))
    finally:
        torch.serialization.set_crc32_options(before)
    assert (made.codes, made.facts.integrity) == ([], Integrity.ABSENT)


def test_tensors_of_a_distributed_checkpoint_lie_where_they_are_said_to(tmp_path: Path) -> None:
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    weight = torch.randn(5, 3)
    checkpoint.save({"model": {"w": weight}}, checkpoint_id=str(tmp_path))
    items = read_distributed(lambda name: (tmp_path / name).open("rb"), ".metadata")
    (info,) = [one for one in items if isinstance(one, TensorInfo)]
    (piece,) = info.pieces
    stored = (tmp_path / piece.artifact).read_bytes()[piece.start :][: piece.nbytes]
    assert stored == weight.numpy().tobytes()
    assert info.crc == zlib.crc32(stored)
