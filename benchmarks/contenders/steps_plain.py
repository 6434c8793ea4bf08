"""The same without numba."""

from __future__ import annotations

from benchmarks.contenders import steps_ours
from benchmarks.sampler_task import Steps, Taken, received, tell
from streaminfer.sampling.kernels import fast


def main(task: Steps) -> Taken:
    fast.given = lambda gradients: None  # noqa: ARG005
    return steps_ours.main(task)


if __name__ == "__main__":
    tell(main(received()))
