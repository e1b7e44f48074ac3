"""Pre-training on Slurm, through submitit: one process for each GPU of each node, which meet as ``torchrun`` would have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from statetrack.errors import MissingExtraError
from statetrack.integrations.hf.pretraining.config import PretrainConfig


class PretrainJob:
    """A job that submitit can call, and call again after the scheduler took its machines away: it goes on from its checkpoint."""

    def __call__(self, config: PretrainConfig, out: str) -> str:
        from submitit.helpers import TorchDistributedEnvironment

        TorchDistributedEnvironment().export()
        return start(config, out)

    def checkpoint(self, config: PretrainConfig, out: str) -> Any:
        """What to submit in place of an interrupted job."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, config, out)


def start(config: PretrainConfig, out: str) -> str:
    """Begin a run, or go on with it if its folder has one; the folder of the model."""
    from statetrack.integrations.hf.pretraining.trainer import pretrain, resume_pretraining

    run = resume_pretraining(out) if (Path(out) / "config.json").exists() else pretrain(config, out)
    return str(run.exported)


def submit(
    config: PretrainConfig,
    out: Path,
    *,
    cluster: str = "slurm",
    nodes: int = 1,
    gpus: int = 0,
    partition: str | None = None,
    minutes: int = 60,
) -> Any:
    """Submit a run.

    Args:
        config: the run.
        out: its folder, which all nodes see.
        cluster: ``"slurm"``, or ``"local"`` or ``"debug"`` to try it out on this machine.
        nodes: number of nodes.
        gpus: processes of a node, a GPU each; 0 means one process without a GPU.
        partition: of Slurm.
        minutes: time limit; a run that is cut short is submitted again and goes on.

    Returns:
        submitit's handle of the job.

    Raises:
        MissingExtraError: without submitit.
    """
    try:
        import submitit
    except ImportError as error:
        raise MissingExtraError("submitit", "cluster", "Pre-training on a cluster") from error
    executor = submitit.AutoExecutor(folder=out.parent / f"{out.name}-slurm", cluster=cluster)
    executor.update_parameters(
        name=f"pretrain-{out.name}", timeout_min=minutes, nodes=nodes, tasks_per_node=max(1, gpus), cpus_per_task=config.threads
    )
    if gpus:
        executor.update_parameters(gpus_per_node=gpus)
    if cluster == "slurm" and partition:
        executor.update_parameters(slurm_partition=partition)
    return executor.submit(PretrainJob(), config, str(out))
