"""The returns of episodes, as Monitor writes them."""

from __future__ import annotations

from trainproof.model.artifact import Content
from trainproof.model.data import Axis, Declared, Direction, FaultCode, Regime, Role, Split
from trainproof.readers.monitor import Monitor

from .readings import Readout, read, survives

START = '#{"t_start": 1600000000.0, "env_id": "CartPole-v1"}\nr,l,t\n'
ROWS = "10.0,10,1.5\n-20.5,20,2.5\n30.0,30,3.5\n"


def made(text: str, path: str = "monitor.csv") -> Readout:
    data = text.encode()
    assert Monitor().claims(path, data[:4096])
    return read(Monitor(), path, data)


def test_the_returns_are_the_reward() -> None:
    got = made(START + ROWS)
    assert (got.values("r"), got.steps("r")) == ([10.0, -20.5, 30.0], [0, 1, 2])
    assert got["r"].axis is Axis.INDEX
    assert got["r"].declared == Declared(Role.REWARD, Split.TRAIN, Direction.HIGHER)
    assert (got.facts.regime, got.faults) == (Regime.REINFORCEMENT, ())


def test_columns_of_the_user_and_resumed_files() -> None:
    header = START.replace("r,l,t", "r,l,t,is_success")
    rows = "1.0,10,1.5,True\n2.0,10,1.5,0\n"
    got = made(header + rows + header + rows)
    assert got.values("r") == [1.0, 2.0, 1.0, 2.0]
    assert got.values("is_success") == [0.0, 0.0]


def test_each_environment_has_a_series_of_its_own() -> None:
    assert made(START + ROWS, "logs/0.monitor.csv").tags == ["0/r", "0/l", "0/t"]


def test_broken_rows_and_a_cut_end_are_told() -> None:
    got = made(START + ROWS + "x,y,z\n1,2\n9.0,9,4.")
    assert got.values("r") == [10.0, -20.5, 30.0]
    assert [(fault.code, fault.line) for fault in got.faults] == [
        (FaultCode.CORRUPT, 6),
        (FaultCode.CORRUPT, 7),
        (FaultCode.TRUNCATED, 8),
    ]


def test_what_is_claimed() -> None:
    assert not Monitor().claims("monitor.csv", b"r,l,t\n1,2,3\n")
    assert not Monitor().claims("monitor.csv", b'#{"a": 1}\nr,l,t\n')
    assert not Monitor().claims("monitor.csv", b'#{"t_start": 1.0}\nr,t,l\n')
    assert made(START).content is Content.HEADER_ONLY


def test_whatever_happened_to_the_file() -> None:
    survives(Monitor(), "monitor.csv", (START + ROWS * 20).encode())
