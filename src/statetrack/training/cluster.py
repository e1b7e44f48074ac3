"""Many runs on a cluster, through submitit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from statetrack.errors import MissingExtraError
from statetrack.training.sweep import Done, Job, Outcome, run_job


class ClusterJob:
    """A job that submitit can call, and call again after the scheduler took its machine away: it continues from its
    checkpoint."""

    def __call__(self, job: Job) -> Outcome:
        return run_job(job)

    def checkpoint(self, job: Job) -> Any:
        """What to submit in place of an interrupted job."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, job)


def run_on_cluster(
    jobs: Sequence[Job],
    folder: Path,
    *,
    cluster: str = "slurm",
    partition: str | None = None,
    minutes: int = 60,
    at_once: int = 100,
    done: Done = lambda outcome: None,
) -> list[Outcome]:
    """Do jobs on a cluster and wait for them; interrupted, it cancels what still waits or runs.

    Args:
        jobs: what to do, in folders that all machines see.
        folder: for submitit's scripts and logs.
        cluster: ``"slurm"``, or ``"local"`` or ``"debug"`` to try it out on this machine.
        partition: of Slurm.
        minutes: time limit of each job.
        at_once: most jobs that may run at the same time.
        done: called with each outcome.

    Raises:
        MissingExtraError: submitit is not installed.
    """
    try:
        import submitit
        from submitit.helpers import as_completed
    except ImportError as error:
        raise MissingExtraError("submitit", "cluster", "Running a sweep on a cluster") from error
    executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
    executor.update_parameters(name="statetrack", timeout_min=minutes, cpus_per_task=max(job.config.threads for job in jobs))
    if cluster == "slurm":
        executor.update_parameters(slurm_array_parallelism=at_once, **({"slurm_partition": partition} if partition else {}))
    with executor.batch():
        submitted = [executor.submit(ClusterJob(), job) for job in jobs]
    outcomes: dict[int, Outcome] = {}
    try:
        for handle in as_completed(submitted):
            index = submitted.index(handle)
            outcomes[index] = _result(handle, jobs[index])
            done(outcomes[index])
    except KeyboardInterrupt:
        for handle in submitted:
            handle.cancel()
        raise
    return [outcomes[index] for index in range(len(jobs))]


def _result(handle: Any, job: Job) -> Outcome:
    try:
        outcome: Outcome = handle.result()
        return outcome
    except Exception as error:
        config, reason = job.config, str(error).strip().splitlines()[-1]
        return Outcome(str(job.out), config.layer, config.task, config.seed, config.optim.lr, "failed", reason)
