"""The cases of samplers: a kernel beside JAX, control variates beside plain gradients, a service beside its kernel."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from benchmarks import ours
from benchmarks.measure import Aim, Case, Ratio, Samples
from benchmarks.ours import Ours
from benchmarks.processes import Failed, output, running
from benchmarks.sampler_task import Steps, Taken
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Partition
from streaminfer.runtime import names
from streaminfer.runtime.loading.produce import publish_rows
from streaminfer.sampling import flat
from streaminfer.sampling.units import Unit
from streaminfer.wire.sampled.draws import Assembler

NUMBA, NUMPY, JAX, SERVICE = "numba", "numpy", "JAX", "service"
PROGRAMS = {NUMBA: "steps_ours", NUMPY: "steps_plain", JAX: "steps_jax", "walks": "walks_ours"}
THIN = 10


def cases(folder: Path, url: str, steps: int) -> Iterator[Case]:
    """So many `steps` of each contender; more if few of them are worth a draw, or if a service takes them."""
    for letter, method in (("l1", "sgld"), ("l2", "sghmc")):
        task = Steps(method, steps, control_variates=False)
        yield Case(
            letter,
            f"{method}, one thread: {_title(task)}, plain gradients",
            "steps/s",
            {name: _rate(name, task) for name in (NUMBA, NUMPY, JAX)},
            [Ratio("numba of JAX", NUMBA, JAX, Aim(">=", 2.0)), Ratio("numpy of JAX", NUMPY, JAX, Aim(">=", 0.8))],
        )
    yield _control_variates(steps)
    yield _service(folder, url, Steps("sgld", 10 * steps))


def _title(task: Steps) -> str:
    return f"logistic regression, d = {task.d}, N = {task.n:,}, minibatch {task.minibatch}"


def _rate(name: str, task: Steps) -> Callable[[], Samples]:
    return lambda: {name: contend(name, task).rate}


def contend(name: str, task: Steps) -> Taken:
    with running(["-m", f"benchmarks.contenders.{PROGRAMS[name]}", task.to_json()]) as process:
        return Taken(**json.loads(output(process).splitlines()[-1]))


def _control_variates(steps: int) -> Case:
    """Each with the step that the same bias allows it. Plain gradients are noisier, the more events there are.

    Their variance V is N/B, so their steps are 4 bias / V and an effective draw takes V / bias of them: nearly 8,000.
    A chain must be long beside that. If it is not, its autocorrelation cannot be seen and it seems to have more draws.
    """
    plain, varied = "sgld, plain", "sgld, control variates"
    tasks = {
        plain: Steps("sgld", 5 * steps, control_variates=False),
        varied: Steps("sgld", steps),
        "sghmc": Steps("sghmc", steps),
        "sgnht": Steps("sgnht", steps),
    }

    def run(name: str, task: Steps) -> Callable[[], Samples]:
        def samples() -> Samples:
            found = contend(NUMBA, task)
            return {name: found.effective, f"{name}: variance": found.variance}

        return samples

    return Case(
        "l3",
        f"effective draws at a bias of 5%: {_title(tasks[plain])}",
        "draws/s",
        {name: run(name, task) for name, task in tasks.items()},
        [Ratio("control variates of plain", varied, plain, Aim(">=", 50.0))],
        units={f"{name}: variance": "of Laplace" for name in tasks},
        most=3,
    )


def _service(folder: Path, url: str, task: Steps) -> Case:
    return Case(
        "l4",
        f"sgld as a service, embedded: {_title(task)}",
        "steps/s",
        {SERVICE: lambda: {SERVICE: serve(folder, url, task)}, NUMBA: _rate(NUMBA, task)},
        [Ratio("service of the kernel", SERVICE, NUMBA, Aim(">=", 0.8))],
    )


def serve(folder: Path, url: str, task: Steps, thin: int = THIN) -> float:
    """Steps a second of one chain, from its first commit with draws to its last."""
    inference = {"method": task.method, "chains": 1, "draws": task.steps // thin, "thin": thin, "warmup": 0}
    mine = ours.written(
        folder, url, lambda name: json.dumps({"name": name, "model": task.model, "inference": inference})
    )
    columns = [*task.model["features"], task.model["target"]]
    with open_bus(url) as bus:
        names.create_topics(mine.spec, bus)
        publish_rows(mine.spec, bus, (dict(zip(columns, row, strict=True)) for row in task.events().tolist()))
        with running(["-m", "streaminfer", "up", str(mine.path), "--bus", url, "--until-idle"]) as process:
            output(process)
        commits = _commits(mine, bus)
    if not commits or commits[-1][0] != task.steps:
        raise Failed(f"the service has not taken {task.steps} steps")
    return (commits[-1][0] - commits[0][0]) / (commits[-1][1] - commits[0][1])


def _commits(mine: Ours, bus: Bus) -> list[tuple[int, float]]:
    """The step that each block of draws ends with, and when it was written, in seconds."""
    spec, settings = mine.spec, mine.spec.sampling
    assert settings is not None
    place = Partition(names.topic(spec, "draws"), 0)
    assembler = Assembler(spec.fingerprint, Unit.numbered(0, settings), flat.size(spec.target.shapes))
    end, found = bus.ends(place.topic)[0], []
    with closing(bus.reader({place: bus.starts(place.topic)[0]})) as reader:
        while reader.position(place) < end:
            for part in reader.poll(1.0).slices:
                for record in part.records:
                    got = assembler.add(record.key, record.value)
                    if got is not None:
                        found.append((got.draws.end, record.timestamp / 1000))
    return found
