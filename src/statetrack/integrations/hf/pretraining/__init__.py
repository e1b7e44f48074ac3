"""Pre-training of language models on local or streamed text; a run is a folder that resumes exactly."""

from statetrack.integrations.hf.pretraining.config import PretrainConfig
from statetrack.integrations.hf.pretraining.run import PretrainRun
from statetrack.integrations.hf.pretraining.trainer import pretrain, resume_pretraining

__all__ = ["PretrainConfig", "PretrainRun", "pretrain", "resume_pretraining"]
